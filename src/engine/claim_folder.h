#pragma once

#include <optional>

#include "comm/group.h"
#include "run/start.h"
#include "train/events.h"

namespace dpo::engine {

// Returns the claim on the run's folder, which rank 0 creates and locks. `start` receives the folder's name,
// which differs if two runs start in the same second. A collective call.
std::optional<run::FolderClaim> claim_folder(run::Start& start, const config::RunConfig& config,
                                             const train::Listener& listener, comm::Group& all);

}  // namespace dpo::engine
