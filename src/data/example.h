// data: from files to batches: sources, the order of examples, their tokens, and forests of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace dpo::data {

using Token = std::int32_t;

// One training example in tokens: a prompt with its responses, truncated, each response with its end-of-text
// token. SFT has one response; a pair has two, the better first; a ranking has many, the best first.
// The tokens are views into whoever made it.
struct Example {
  std::span<const Token> prompt;
  std::vector<std::span<const Token>> responses;
  std::int64_t row = 0;  // where it comes from, for reports
  double weight = 1;     // in the loss
  double margin = 0;     // by how much the better response should lead, in rewards
  // The tokens of a response behind its first `full_tokens` count `tail_weight` in its log-probability.
  std::size_t full_tokens = std::numeric_limits<std::size_t>::max();
  float tail_weight = 1;
};

}  // namespace dpo::data
