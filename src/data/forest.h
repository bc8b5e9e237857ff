#pragma once

#include <compare>
#include <cstddef>
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

// A response of an example, by its number among the example's responses.
struct ExampleResponse {
  std::int64_t example = 0;  // index into the batch
  std::size_t response = 0;
  auto operator<=>(const ExampleResponse&) const = default;
};

// A part of a batch. If a prompt's responses are divided over parts, an example is in every part that has one
// of its responses.
struct Part {
  std::vector<std::int64_t> examples;      // indices into the batch, ascending
  std::vector<ExampleResponse> elsewhere;  // responses of these examples in other parts, ascending
};

// Stands in Tree::compared for a response in another part.
constexpr std::int32_t kElsewhere = -1;

// Build the trees of a part of a batch (or of all of it), in the order of their first examples.
std::vector<Tree> grow_trees(std::span<const Example> batch, const Part& part);
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
  // Responses. Numbers from responses() on stand for those in other parts of the batch, which have no tokens
  // here.
  std::vector<std::int32_t> compared;
  std::int64_t elsewhere = 0;  // how many of those there are

  std::int64_t trees() const { return static_cast<std::int64_t>(prompt_starts.size()) - 1; }
  std::int64_t responses() const { return static_cast<std::int64_t>(response_starts.size()) - 1; }
  std::int64_t prompt_tokens() const { return prompt_starts.back(); }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Pack a part of a batch, or these examples, or all, in this order.
Forest make_forest(std::span<const Example> batch, const Part& part);
Forest make_forest(std::span<const Example> batch, std::span<const std::int64_t> indices);
Forest make_forest(std::span<const Example> batch);

}  // namespace dpo::data
