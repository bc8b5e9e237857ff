#pragma once

#include <filesystem>
#include <functional>

#include "config/compose.h"
#include "plan/plan.h"
#include "train/setup.h"

namespace dpo::cli {

// What the user of a run is told.
struct TrainDisplay {
  std::function<void(const plan::Plan& plan, const plan::Inputs& in)> show_plan;
  train::Listener listener;
};

struct TrainResult {
  int status = 0;  // the exit status of the program
  std::filesystem::path folder;
};

// 'dpo train' from the words of its command line to the end of the run.
TrainResult train_as_asked(const config::Request& request, const TrainDisplay& display);

}  // namespace dpo::cli
