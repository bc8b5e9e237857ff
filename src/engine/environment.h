#pragma once

#include <filesystem>

#include "comm/world.h"
#include "train/events.h"

namespace dpo::engine {

// environment.json: what a report says about the machine; for sharing, so without its name and folders. A
// failure is a warning.
void write_environment(const std::filesystem::path& folder, const comm::World& world,
                       const train::Listener& listener);

}  // namespace dpo::engine
