#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/example.h"

namespace dpo::data {

// A response and the weights of its tokens: those after the first `full_tokens` have the weight
// `tail_weight`.
struct Leaf {
  std::span<const Token> tokens;
  std::size_t full_tokens = 0;
  float tail_weight = 1;
  std::vector<TokenRange> unscored = {};  // within the tokens
  bool operator==(const Leaf& other) const;
};

// A prompt with the distinct responses that the examples have for it. A response that examples weight
// differently is several leaves, because each has its own log-probability.
struct Tree {
  std::span<const Token> prompt;
  std::vector<Leaf> responses;
  std::vector<std::int64_t> examples;               // indices into the batch
  std::vector<std::vector<std::int32_t>> compared;  // per example: its responses, the preferred first

  std::int64_t tokens() const;
};

// Build the trees of these examples of a batch (or of all), in the order of their first examples.
std::vector<Tree> grow_trees(std::span<const Example> batch, std::span<const std::int64_t> indices);
std::vector<Tree> grow_trees(std::span<const Example> batch);

// Trees in one flat array without padding: the tokens of all prompts, then those of all responses. A prompt
// is stored once for all its responses, and a response once for all examples that compare it. Prompts and
// responses are shared if their tokens are equal after truncation.
struct Forest {
  std::vector<Token> tokens;                // [prompt tokens | response tokens]
  std::vector<std::int32_t> positions;      // position in its sequence; a response continues its prompt
  std::vector<std::int32_t> prompt_starts;  // [trees + 1], into tokens; the last is where the responses begin
  std::vector<std::int32_t> tree_responses;   // [trees + 1], first response of each tree
  std::vector<std::int32_t> response_starts;  // [responses + 1], into tokens
  std::vector<std::int32_t> row_starts;       // [responses + 1], into rows and targets

  // The outputs that the head computes: the hidden state of token `rows[i]` predicts `targets[i]`. The first
  // token of a response is predicted from the last token of its prompt. After an empty prompt it is not
  // predicted, as in a padded batch. Tokens that are not scored have no row, so the number of rows of a
  // response is its length |y| in losses and metrics.
  std::vector<std::int32_t> rows;
  std::vector<Token> targets;
  std::vector<float> row_weights;  // weight of each row in its response's log-probability; empty if all are 1

  // The examples, as indices into the batch, and the responses that each compares, the preferred one first.
  std::vector<std::int64_t> examples;
  std::vector<std::int32_t> example_starts;  // [examples + 1], into compared
  std::vector<std::int32_t> compared;        // responses

  std::int64_t trees() const { return static_cast<std::int64_t>(prompt_starts.size()) - 1; }
  std::int64_t responses() const { return static_cast<std::int64_t>(response_starts.size()) - 1; }
  std::int64_t prompt_tokens() const { return prompt_starts.back(); }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Pack these examples of a batch (or all), in this order.
Forest make_forest(std::span<const Example> batch, std::span<const std::int64_t> indices);
Forest make_forest(std::span<const Example> batch);

// A batch divided into parts (microbatches times ranks) of about equal numbers of tokens.
struct Partition {
  std::vector<std::vector<std::int64_t>> parts;  // indices of examples, ascending; a part may be empty
  std::int64_t repeated_prompts = 0;             // extra copies of prompts, because their trees were cut
};

// Divides a batch. The result depends on the arguments only. A tree stays whole unless it has more than
// `budget` tokens (0: no limit); then it is cut between examples, and each piece repeats the prompt. Examples
// with an empty prompt are divided wherever they share no response.
Partition partition_batch(std::span<const Example> batch, std::int64_t parts, std::int64_t budget);

}  // namespace dpo::data
