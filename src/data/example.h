// data turns files of rows into batches: sources, tokenized examples, their order, and packed
// forests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace dpo::data {

using Token = std::int32_t;

// A range of tokens in a text: [begin, end).
struct TokenRange {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const TokenRange&) const = default;
};

// One tokenized training example: a prompt with its responses, truncated. Each response ends with its
// end-of-text token. SFT and a KTO label have one response. A pair has two, chosen and rejected. A ranking
// has many, the best first. Tokens and ranges are views into memory that the creator owns.
struct Example {
  std::span<const Token> prompt;
  std::vector<std::span<const Token>> responses;
  double weight = 1;  // in the loss
  double margin = 0;  // how far the chosen response should lead, in rewards
  // Tokens of a response after its first `full_tokens` count `tail_weight` times in its log-probability.
  std::size_t full_tokens = std::numeric_limits<std::size_t>::max();
  float tail_weight = 1;
  // Tokens of each response that are read but not scored, such as a user's turn inside a multi-turn answer;
  // may be empty for all responses. Ranges ascend and do not overlap. They are not truncated, so they may lie
  // beyond the end of the response.
  std::vector<std::span<const TokenRange>> unscored = {};
  bool desirable = true;  // for KTO: true if the single response is good

  // Return the unscored ranges within a truncated response, and the number of its scored tokens.
  std::vector<TokenRange> unscored_of(std::size_t response) const;
  std::size_t scored_tokens(std::size_t response) const;
};

}  // namespace dpo::data
