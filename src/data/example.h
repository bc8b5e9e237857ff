// data: from files to batches: sources, examples and their tokens, their order, and forests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace dpo::data {

using Token = std::int32_t;

// One training example in tokens: a prompt with its responses, truncated, each response with its end-of-text
// token. SFT has one response; a pair has two, chosen and rejected; a ranking has many, the best first. The
// tokens are views into memory owned by its creator.
struct Example {
  std::span<const Token> prompt;
  std::vector<std::span<const Token>> responses;
  double weight = 1;  // in the loss
  double margin = 0;  // by which the chosen response should lead, in rewards
  // Tokens of a response after its first `full_tokens` count `tail_weight` times in its log-probability.
  std::size_t full_tokens = std::numeric_limits<std::size_t>::max();
  float tail_weight = 1;
};

}  // namespace dpo::data
