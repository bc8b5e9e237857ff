#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/group.h"
#include "config/run_config.h"
#include "model/generate.h"
#include "text/tokenizer.h"
#include "train/records.h"

namespace dpo::run {

// What a model answers to a prompt of the evaluation.
struct Sample {
  std::string prompt;
  std::string text;
  std::int64_t tokens = 0;  // of the answer, with its end
  bool ended = false;       // by the end-of-text token, before max_length
};

// Samples of the first `n_eval_model_samples` examples. The random numbers depend on the seed and the place
// of a prompt alone, so a model that does not change always gives the same ones. All ranks draw them
// together.
std::vector<Sample> draw_samples(const model::Model& model, model::Store& store,
                                 std::span<const train::ExampleBatch> evaluation,
                                 const text::Tokenizer& tokenizer, const config::RunConfig& config,
                                 comm::Group& all);

// A line of samples/step-N.jsonl for each prompt; `reference` is empty where there is none.
std::vector<std::string> to_json_lines(std::span<const Sample> policy, std::span<const Sample> reference);

}  // namespace dpo::run
