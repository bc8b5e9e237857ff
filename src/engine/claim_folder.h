#pragma once

#include <optional>

#include "comm/group.h"
#include "run/start.h"
#include "train/events.h"

namespace dpo::engine {

// A collective call: rank 0 creates and locks the folder of the run, and returns the claim. `start` gets the
// folder's name, which is another one if two runs start in the same second.
std::optional<run::FolderClaim> claim_folder(run::Start& start, const config::RunConfig& config,
                                             const train::Listener& listener, comm::Group& all);

}  // namespace dpo::engine
