// data: from files to batches: sources, examples and their tokens, their order, and forests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace dpo::data {

using Token = std::int32_t;

// Tokens of a text, by position: [begin, end).
struct TokenRange {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const TokenRange&) const = default;
};

// One training example in tokens: a prompt with its responses, truncated, each response with its end-of-text
// token. SFT and a label of KTO have one response; a pair has two, chosen and rejected; a ranking has many,
// the best first. Tokens and ranges are views into memory owned by its creator.
struct Example {
  std::span<const Token> prompt;
  std::vector<std::span<const Token>> responses;
  double weight = 1;  // in the loss
  double margin = 0;  // by which the chosen response should lead, in rewards
  // Tokens of a response after its first `full_tokens` count `tail_weight` times in its log-probability.
  std::size_t full_tokens = std::numeric_limits<std::size_t>::max();
  float tail_weight = 1;
  // Of each response (or of none, if empty): tokens that are read but not scored, such as a user's turn
  // inside a multi-turn answer. Ascending, not overlapping, and not truncated: they may lie beyond the
  // response's end.
  std::vector<std::span<const TokenRange>> unscored = {};
  bool desirable = true;  // KTO with one response: whether it is good

  // The ranges of a response within its truncated tokens, and how many tokens that leaves.
  std::vector<TokenRange> unscored_of(std::size_t response) const;
  std::size_t scored_tokens(std::size_t response) const;
};

}  // namespace dpo::data
