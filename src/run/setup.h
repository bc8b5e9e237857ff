#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "comm/world.h"
#include "config/run_config.h"
#include "data/examples.h"
#include "plan/plan.h"
#include "run/samples.h"
#include "run/snapshot.h"
#include "text/tokenizer.h"
#include "train/batches.h"
#include "train/events.h"
#include "train/step.h"

namespace dpo::run {

// What a run is to do, and the examples it does it with.
struct RunData {
  plan::Plan plan;
  config::RunConfig config;
  text::Tokenizer tokenizer;
  data::Examples train;
  std::optional<data::Examples> test;  // nothing where nothing is evaluated
  std::vector<train::Indices> training;
  std::vector<train::ExampleBatch> evaluation;
};

// Everything of a run that is loaded before its first update.
struct Prepared : RunData {
  std::vector<Sample> reference_samples;  // the reference does not change, so they are drawn once
  checkpoint::LoadedModel described;      // the policy's files; the weights are in the state
  train::TrainState state;
  RunState progress;                    // where the run begins
  std::optional<std::int64_t> resumed;  // the examples of the checkpoint that it goes on from
};

// `checkpoint`: where to go on from, if anywhere. `look` is shown the data before weights are read; what it
// throws is thrown.
Prepared prepare(const plan::Plan& plan, const std::optional<std::filesystem::path>& checkpoint,
                 const train::Listener& listener, const comm::World& world,
                 const std::function<void(const RunData&)>& look);

}  // namespace dpo::run
