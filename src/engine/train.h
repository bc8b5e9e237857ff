#pragma once

#include <filesystem>
#include <functional>

#include "comm/world.h"
#include "config/compose.h"
#include "plan/plan.h"
#include "run/setup.h"

namespace dpo::engine {

// What the user of a run is told.
struct TrainDisplay {
  std::function<void(const plan::Plan& plan, const plan::Inputs& in)> show_plan;
  train::Listener listener;
};

struct TrainResult {
  int status = 0;  // the exit status of the program
  std::filesystem::path folder;
};

// 'dpo train' from its configuration to the end of the run. Of several ranks the first alone shows the plan
// and what the listener is told, and writes the run folder. A training failure is thrown.
TrainResult train_as_asked(const config::Resolved& resolved, const TrainDisplay& display,
                           const comm::World& world = {});

}  // namespace dpo::engine
