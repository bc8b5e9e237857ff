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
#include "track/tensorboard.h"
#include "train/records.h"

namespace dpo::run {

// A response that a model generated for a prompt of the evaluation.
struct Sample {
  std::string prompt;
  std::string text;
  std::int64_t tokens = 0;  // of the response, with end-of-text
  bool ended = false;       // with end-of-text or the end of the turn, before max_length
  bool cut = false;         // before max_length, by a limit in plan::Sampled
};

// Generates samples for the first examples, each up to one of the tokens in `ends` and within the limits.
// Random numbers depend only on the seed and a prompt's position, so a frozen model always gives the same
// samples. A limit in seconds may cut them at different points, though. This is a collective call. `on_step`
// is called after each token of all samples, and with done == all at the end; it is collective too and may
// throw.
using OnStep = std::function<void(std::int64_t done, std::int64_t all)>;
std::vector<Sample> draw_samples(const model::Model& model, model::Store& store,
                                 std::span<const train::ExampleBatch> evaluation,
                                 const text::Tokenizer& tokenizer, std::span<const data::Token> ends,
                                 const config::RunConfig& config, const plan::Sampled& limits,
                                 comm::Group& all, const OnStep& on_step = {});

std::vector<track::SampleText> sample_texts(std::span<const Sample> policy,
                                            std::span<const Sample> reference);

// Returns a line of eval_examples.jsonl for each example of the evaluation: the prompt as the model sees it,
// and the responses without special tokens.
std::vector<std::string> example_lines(std::span<const train::ExampleBatch> evaluation,
                                       const text::Tokenizer& tokenizer);

// Returns a line of samples/step-N.jsonl for each prompt. `reference` is empty if there is none.
std::vector<std::string> to_json_lines(std::span<const Sample> policy, std::span<const Sample> reference);

// Parses the policy's sample from a line of to_json_lines. Returns nullopt if the line is damaged or from a
// version that wrote no lengths.
std::optional<Sample> parse_sample(std::string_view line);

}  // namespace dpo::run
