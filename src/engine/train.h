#pragma once

#include <filesystem>
#include <functional>

#include "comm/world.h"
#include "config/compose.h"
#include "plan/plan.h"
#include "run/setup.h"

namespace dpo::engine {

// How a run is shown to its user.
struct TrainDisplay {
  std::function<void(const plan::Plan& plan, const plan::Inputs& in)> show_plan;
  train::Listener listener;
};

struct TrainResult {
  int status = 0;  // the exit status of the program
  std::filesystem::path folder;
};

// 'dpo train' from its configuration to the end of the run. Only rank 0 shows the plan, calls the listener
// and writes the run folder. A training failure is thrown.
TrainResult run_training(const config::Resolved& resolved, const TrainDisplay& display,
                         const comm::World& world = {});

}  // namespace dpo::engine
