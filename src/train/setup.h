#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "config/run_config.h"
#include "data/examples.h"
#include "plan/plan.h"
#include "text/tokenizer.h"
#include "train/checkpoint.h"
#include "train/step.h"

namespace dpo::train {

// Told what is going on while a run is prepared.
struct Listener {
  std::function<void(const std::string& line)> say;
  std::function<void(const std::string& what, std::int64_t done, std::int64_t all)> progress;
};

// Everything of a run that is loaded before its first update.
struct Prepared {
  config::RunConfig config;
  text::Tokenizer tokenizer;
  data::Examples train, test;
  checkpoint::LoadedModel described;  // the policy's files; the weights are in the trainee
  Trainee trainee;
  Progress progress;  // where the run begins
};

// `checkpoint`: where to go on from, if anywhere.
Prepared prepare(const plan::Plan& plan, const std::optional<std::filesystem::path>& checkpoint,
                 const Listener& listener);

// In which types a run keeps and computes its policy, and where.
PolicyPrecision precision_of(const config::RunConfig& config);
at::Device device_of_this_machine();

// A policy with these weights (in the stored type), and what its configuration asks for around it. The
// weights of the reference are asked for where the loss uses one.
Trainee make_trainee(const config::RunConfig& config, const model::Model& model, model::Weights weights,
                     const std::function<model::Weights(at::ScalarType)>& reference_weights);

loss::Options loss_options(const config::LossConfig& config);

}  // namespace dpo::train
