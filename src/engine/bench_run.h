#pragma once

#include <functional>

#include "comm/world.h"
#include "commands/commands.h"
#include "plan/plan.h"

namespace dpo::engine {

// Returns the run to measure. Downloads what its plan needs, and prints notes.
config::RunConfig bench_run(const config::Resolved& asked, const comm::World& world);

// The plan of a run that is measured.
struct PlannedBench {
  plan::Inputs in;
  plan::Plan plan;

  // With `warns`, prints a warning if the run does not fit.
  PlannedBench(const config::RunConfig& run, const plan::Machine& machine, bool warns);

  // Calls `work` and explains it if memory runs out.
  void run(const std::function<void()>& work) const;
};

// Implements `dpo bench train --as`.
int rehearse_training(const commands::BenchTrainArguments& arguments);

}  // namespace dpo::engine
