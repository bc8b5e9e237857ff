#pragma once

#include <filesystem>

#include "comm/world.h"
#include "config/compose.h"
#include "engine/display.h"

namespace dpo::engine {

struct TrainResult {
  int status = 0;  // exit status of the program
  std::filesystem::path folder;
  bool chat = false;  // true if trained on conversations
};

// Runs 'dpo train' from its configuration to the end of the run. Only rank 0 uses the display and writes the
// run folder. Throws a TrainingFailure if training fails.
TrainResult run_training(const config::Resolved& asked, RunDisplay& display, const comm::World& world = {});

}  // namespace dpo::engine
