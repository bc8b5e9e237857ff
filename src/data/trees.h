#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/example.h"

namespace dpo::data {

// A response as some examples count it: the tokens behind the first `full` weigh less.
struct Leaf {
  std::span<const Token> tokens;
  std::size_t full = 0;
  float tail_weight = 1;
};

// A prompt with the different responses that some examples have to it. One that examples count differently is
// several leaves: its log-probability is another number in each.
struct Tree {
  std::span<const Token> prompt;
  std::vector<Leaf> responses;
  std::vector<std::int64_t> examples;               // numbers in the batch
  std::vector<std::vector<std::int32_t>> compared;  // of each example: its responses, the better first

  std::int64_t tokens() const;
};

// The trees of the chosen examples, in the order of their first examples.
std::vector<Tree> grow_trees(std::span<const Example> batch, std::span<const std::int64_t> chosen);

}  // namespace dpo::data
