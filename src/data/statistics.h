#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/examples.h"

namespace dpo::data {

// Lengths of texts in tokens, before truncation. Responses include their end-of-text token.
struct LengthSummary {
  std::int64_t count = 0;
  double mean = 0;
  std::int64_t median = 0;
  std::int64_t p90 = 0;
  std::int64_t p99 = 0;
  std::int64_t longest = 0;
  std::vector<double> parts;  // the mean of each twentieth, from the shortest to the longest
};

LengthSummary summarize(std::vector<std::int64_t> lengths);

// Lengths of all prompts and all responses of a split, each counted once.
struct SplitLengths {
  LengthSummary prompt;
  LengthSummary response;
};

SplitLengths measure_lengths(const Examples& examples);

// Returns the share of the examples' response tokens that are scored, after truncation.
double scored_share(const Examples& examples);

// The size of a split, summed over its sources.
struct SplitSizes {
  std::int64_t prompts = 0;
  std::int64_t pairs = 0;
  std::int64_t rankings = 0;
  std::int64_t ranked = 0;  // responses in all rankings
  std::int64_t longest_ranking = 2;
  std::int64_t labels = 0;     // labelled responses
  std::int64_t desirable = 0;  // labels that are good
};

SplitSizes sizes_of(const Examples& examples);

// Text near the beginning of every file that `dpo data --lengths` wrote.
constexpr std::string_view kLengthsMark = "Made by 'dpo data --lengths'.";

// Formats the two splits as a file of configs/lengths, for plan.lengths=FILE. `test` is null for runs without
// evaluation.
std::string lengths_yaml(const Examples& train, const SplitLengths& lengths, const Examples* test);

// The savings of packing batches as forests, summed over batches.
struct PackingStatistics {
  std::int64_t examples = 0;
  std::int64_t computed = 0;  // tokens of the forests
  std::int64_t repeated = 0;  // tokens if every response had its own copy of the prompt
  std::int64_t padded = 0;    // tokens if every sequence were padded to the longest of its batch

  void add(std::span<const Example> batch);

  double padding_avoided() const { return ratio(padded - repeated); }
  double sharing_avoided() const { return ratio(repeated - computed); }
  double times_saved() const { return ratio(padded); }  // padded tokens per computed one

 private:
  double ratio(std::int64_t tokens) const {
    return computed == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(computed);
  }
};

}  // namespace dpo::data
