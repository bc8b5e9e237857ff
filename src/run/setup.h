#pragma once

#include <filesystem>
#include <functional>
#include <map>
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
#include "text/generation_config.h"
#include "text/tokenizer.h"
#include "train/batches.h"
#include "train/events.h"
#include "train/update.h"

namespace dpo::run {

// The plan and the data of a run.
struct RunData {
  plan::Plan plan;
  config::RunConfig config;
  plan::Sampled sampled;  // limits of one sampling from policy and reference
  text::Tokenizer tokenizer;
  data::Examples train;
  std::optional<data::Examples> test;  // nullopt if eval_every=null
  std::vector<train::Indices> training;
  std::vector<train::ExampleBatch> evaluation;
  std::vector<data::Token> ends;  // tokens that end a response
  // The tokens that end answers, and the chat template's files. Set for runs on conversations and stored in
  // their checkpoints.
  std::optional<text::AnswerEnds> answer_ends;
  std::map<std::string, std::string> template_files;
};

// Everything that is loaded before the first update.
struct PreparedRun : RunData {
  std::vector<Sample> reference_samples;  // of a cached reference, which is freed after scoring
  checkpoint::LoadedModel loaded;         // the policy's metadata; the weights are in `state`
  train::TrainState state;
  RunState run_state;
  std::optional<std::int64_t> resumed;  // examples of the checkpoint that it resumes from
};

// Loads data, reference and policy. `checkpoint` is the one to resume from. `on_data` receives the data
// before weights are read; it may change the plan's decisions, or throw.
PreparedRun prepare_run(const plan::Plan& plan, const std::optional<std::filesystem::path>& checkpoint,
                        const train::Listener& listener, const comm::World& world,
                        const std::function<void(RunData&)>& on_data);

}  // namespace dpo::run
