#pragma once

#include <filesystem>

#include "comm/world.h"
#include "train/events.h"

namespace dpo::engine {

// Writes environment.json, which describes the machine in the report. Reports are shared, so it contains
// neither the machine's name nor folders. A failure is a warning.
void write_environment(const std::filesystem::path& folder, const comm::World& world,
                       const train::Listener& listener);

}  // namespace dpo::engine
