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
#include "text/tokenizer.h"
#include "train/batches.h"
#include "train/checkpoint.h"
#include "train/listener.h"
#include "train/samples.h"
#include "train/step.h"

namespace dpo::train {

// What a run is to do, and the examples it does it with.
struct RunData {
  plan::Plan plan;
  config::RunConfig config;
  text::Tokenizer tokenizer;
  data::Examples train;
  std::optional<data::Examples> test;  // nothing where nothing is evaluated
  std::vector<Numbers> training;
  std::vector<ExampleBatch> evaluation;
};

// Everything of a run that is loaded before its first update.
struct Prepared : RunData {
  std::vector<Sample> reference_samples;  // the reference does not change, so they are drawn once
  checkpoint::LoadedModel described;      // the policy's files; the weights are in the trainee
  Trainee trainee;
  Progress progress;                    // where the run begins
  std::optional<std::int64_t> resumed;  // the examples of the checkpoint that it goes on from
};

// `checkpoint`: where to go on from, if anywhere. `look` is shown the data before weights are read; what it
// throws is thrown.
Prepared prepare(const plan::Plan& plan, const std::optional<std::filesystem::path>& checkpoint,
                 const Listener& listener, const comm::World& world,
                 const std::function<void(const RunData&)>& look);

// The devices that this process computes on: several only where it is the only one and spreads the layers.
std::vector<at::Device> devices_of(const config::RunConfig& config, const comm::World& world);
shard::Mesh mesh_of(const config::RunConfig& config, const comm::World& world);

// In which types a run keeps and computes its policy.
PolicyPrecision precision_of(const config::RunConfig& config, const shard::Mesh& mesh);

// In which type the reference is computed, and how.
at::ScalarType reference_type(const config::RunConfig& config);
model::PassOptions pass_of(const config::RunConfig& config);

// A policy with these weights (in the stored type), and what its configuration asks for around it.
Trainee make_trainee(const config::RunConfig& config, const shard::Mesh& mesh, const model::Model& model,
                     model::Weights weights, std::unique_ptr<Reference> reference);

loss::Options loss_options(const config::LossConfig& config);

}  // namespace dpo::train
