#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/group.h"
#include "config/run_config.h"
#include "model/generate.h"
#include "plan/timing.h"
#include "text/tokenizer.h"
#include "track/trackers.h"
#include "train/records.h"

namespace dpo::run {

// A response that a model generates for a prompt of the evaluation.
struct Sample {
  std::string prompt;
  std::string text;
  std::int64_t tokens = 0;  // of the response, with end-of-text
  bool ended = false;       // with end-of-text or the end of the turn, before max_length
  bool cut = false;         // before max_length, by a limit of plan::Sampled
};

// Samples for the first examples, each up to one of the tokens `ends` and within the limits. Random numbers
// depend only on the seed and a prompt's position, so a frozen model always gives the same samples, but a
// limit in seconds may cut them elsewhere. A collective call; so is `on_step`, which is called after each
// token of all samples, and with done == all at their end. It may throw.
using OnStep = std::function<void(std::int64_t done, std::int64_t all)>;
std::vector<Sample> draw_samples(const model::Model& model, model::Store& store,
                                 std::span<const train::ExampleBatch> evaluation,
                                 const text::Tokenizer& tokenizer, std::span<const data::Token> ends,
                                 const config::RunConfig& config, const plan::Sampled& limits,
                                 comm::Group& all, const OnStep& on_step = {});

std::vector<track::SampleText> sample_texts(std::span<const Sample> policy,
                                            std::span<const Sample> reference);

// A line of eval_examples.jsonl for each example of the evaluation: its prompt as the model sees it, and its
// responses without special tokens.
std::vector<std::string> example_lines(std::span<const train::ExampleBatch> evaluation,
                                       const text::Tokenizer& tokenizer);

// A line of samples/step-N.jsonl for each prompt; `reference` is empty if there is none.
std::vector<std::string> to_json_lines(std::span<const Sample> policy, std::span<const Sample> reference);

// The policy's sample in such a line. nullopt if it is damaged or from a version that wrote no lengths.
std::optional<Sample> parse_sample(std::string_view line);

}  // namespace dpo::run
