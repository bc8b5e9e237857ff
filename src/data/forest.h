#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/example.h"

namespace dpo::data {

// Examples as trees in one flat array without padding: the tokens of all prompts, then those of all
// responses. A prompt stands once for all its responses, a response once for all examples that compare it.
// Prompts and responses are the same when their tokens are, after truncation.
struct Forest {
  std::vector<Token> tokens;                // [prompt tokens | response tokens]
  std::vector<std::int32_t> positions;      // of each token in its sequence; a response continues its prompt
  std::vector<std::int32_t> prompt_starts;  // [trees + 1], into tokens; the last is where the responses begin
  std::vector<std::int32_t> tree_responses;   // [trees + 1], first response of each tree
  std::vector<std::int32_t> response_starts;  // [responses + 1], into tokens
  std::vector<std::int32_t> row_starts;       // [responses + 1], into rows and targets

  // What the head computes: the hidden state of `rows[i]` predicts `targets[i]`. The first token of a
  // response is predicted by the last of its prompt; behind an empty prompt nothing predicts it, as in a
  // padded batch.
  std::vector<std::int32_t> rows;
  std::vector<Token> targets;
  std::vector<float> row_weights;  // of each row in its response's log-probability; empty: all are 1

  // The examples, by number in the batch, and the responses each compares, the better ones first.
  std::vector<std::int64_t> examples;
  std::vector<std::int32_t> example_starts;  // [examples + 1], into compared
  std::vector<std::int32_t> compared;        // responses

  std::int64_t trees() const { return static_cast<std::int64_t>(prompt_starts.size()) - 1; }
  std::int64_t responses() const { return static_cast<std::int64_t>(response_starts.size()) - 1; }
  std::int64_t prompt_tokens() const { return prompt_starts.back(); }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Packs some examples of a batch, named by their numbers, in that order.
Forest make_forest(std::span<const Example> batch, std::span<const std::int64_t> chosen);

// The whole batch as one forest.
Forest make_forest(std::span<const Example> batch);

}  // namespace dpo::data
