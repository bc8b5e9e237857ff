#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/examples.h"

namespace dpo::data {

// How long texts are, in tokens before anything is cut off; responses with their end-of-text token.
struct LengthSummary {
  std::int64_t count = 0;
  double mean = 0;
  std::int64_t median = 0;
  std::int64_t p90 = 0;
  std::int64_t p99 = 0;
  std::int64_t longest = 0;
  std::vector<double> parts;  // the means of twentieths, from the shortest to the longest
};

LengthSummary summarize(std::vector<std::int64_t> lengths);

// Of all prompts (of all responses) of a split, each once.
struct SplitLengths {
  LengthSummary prompt;
  LengthSummary response;
};

SplitLengths measure_lengths(const Examples& examples);

// How much a split holds, all of its sources together.
struct SplitSizes {
  std::int64_t prompts = 0;
  std::int64_t pairs = 0;
  std::int64_t rankings = 0;
  std::int64_t ranked = 0;  // responses in all rankings
  std::int64_t longest_ranking = 2;
};

SplitSizes sizes_of(const Examples& examples);

// The two splits as a file of configs/lengths, for plan.lengths=FILE.
std::string lengths_yaml(const Examples& train, const SplitLengths& lengths, const Examples& test);

}  // namespace dpo::data
