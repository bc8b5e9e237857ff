#include "data/statistics.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "data/forest.h"

namespace dpo::data {
namespace {

constexpr std::size_t kParts = 20;

double mean(std::span<const std::int64_t> values) {
  return values.empty()
             ? 0
             : static_cast<double>(std::accumulate(values.begin(), values.end(), std::int64_t{0})) /
                   static_cast<double>(values.size());
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.1f}", text.empty() ? "" : ", ", value);
  return text;
}

}  // namespace

SplitSizes sizes_of(const Examples& examples) {
  SplitSizes sizes;
  for (const SourceCounts& counts : examples.counts()) {
    sizes.prompts += counts.prompts;
    sizes.pairs += counts.pairs;
    sizes.rankings += counts.rankings;
    sizes.ranked += counts.ranked;
    sizes.longest_ranking = std::max(sizes.longest_ranking, counts.longest_ranking);
    sizes.labels += counts.labels;
    sizes.desirable += counts.desirable;
  }
  return sizes;
}

LengthSummary summarize(std::vector<std::int64_t> lengths) {
  LengthSummary summary;
  if (lengths.empty()) return summary;
  std::sort(lengths.begin(), lengths.end());
  const std::size_t n = lengths.size();
  const auto at = [&](double share) {
    return lengths[static_cast<std::size_t>(share * static_cast<double>(n - 1))];
  };
  summary.count = static_cast<std::int64_t>(n);
  summary.mean = mean(lengths);
  summary.median = at(0.5);
  summary.p90 = at(0.9);
  summary.p99 = at(0.99);
  summary.longest = lengths.back();
  const std::size_t parts = std::min(kParts, n);
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = i * n / parts;
    summary.parts.push_back(mean(std::span(lengths).subspan(begin, (i + 1) * n / parts - begin)));
  }
  return summary;
}

SplitLengths measure_lengths(const Examples& examples) {
  std::vector<std::int64_t> prompts;
  std::vector<std::int64_t> responses;
  for (std::uint32_t source = 0; source < examples.counts().size(); ++source) {
    const TokenFile& file = examples.tokens(source);
    for (std::uint32_t p = 0; p < file.prompts(); ++p) {
      prompts.push_back(static_cast<std::int64_t>(file.prompt(p).size()));
      for (std::uint32_t r = 0; r < file.responses(p); ++r)
        responses.push_back(static_cast<std::int64_t>(file.response(p, r).size()));
    }
  }
  return {summarize(std::move(prompts)), summarize(std::move(responses))};
}

double scored_share(const Examples& examples) {
  std::size_t scored = 0, all = 0;
  for (std::uint32_t i = 0; i < examples.size(); ++i) {
    const Example example = examples.at(i);
    for (std::size_t r = 0; r < example.responses.size(); ++r) {
      scored += example.scored_tokens(r);
      all += example.responses[r].size();
    }
  }
  return all == 0 ? 1 : static_cast<double>(scored) / static_cast<double>(all);
}

std::string lengths_yaml(const Examples& train, const SplitLengths& lengths, const Examples* test) {
  const SplitSizes train_sizes = sizes_of(train);
  const SplitSizes test_sizes = test ? sizes_of(*test) : SplitSizes{};
  // Writes the keys that only data with labels has.
  const auto labels = [](const SplitSizes& sizes, bool desirable) {
    if (sizes.labels == 0) return std::string();
    return fmt::format(", labels: {}{}", sizes.labels,
                       desirable ? fmt::format(", desirable: {}", sizes.desirable) : "");
  };
  std::string names;
  for (const SourceCounts& counts : train.counts()) names += (names.empty() ? "" : ", ") + counts.name;
  return fmt::format(
      "# Token counts of {}, before truncation: the mean of each twentieth of the prompts (of the responses, "
      "with\n"
      "# their end-of-text token) of the train split, from the shortest to the longest. {}\n"
      "train: {{prompts: {}, pairs: {}, rankings: {}, ranked: {}{}}}\n"
      "test: {{prompts: {}, pairs: {}{}}}\n"
      "prompt: [{}]\n"
      "response: [{}]\n"
      "longest: {{prompt: {}, response: {}, ranking: {}}}\n",
      names, kLengthsMark, train_sizes.prompts, train_sizes.pairs, train_sizes.rankings, train_sizes.ranked,
      labels(train_sizes, true), test_sizes.prompts, test_sizes.pairs, labels(test_sizes, false),
      list(lengths.prompt.parts), list(lengths.response.parts), lengths.prompt.longest,
      lengths.response.longest, train_sizes.longest_ranking);
}

void PackingStatistics::add(std::span<const Example> batch) {
  for (const Tree& tree : grow_trees(batch)) computed += tree.tokens();
  std::int64_t sequences = 0, longest = 0;
  for (const Example& example : batch)
    for (const std::span<const Token> response : example.responses) {
      const auto length = static_cast<std::int64_t>(example.prompt.size() + response.size());
      repeated += length;
      longest = std::max(longest, length);
      ++sequences;
    }
  padded += sequences * longest;
  examples += static_cast<std::int64_t>(batch.size());
}

}  // namespace dpo::data
