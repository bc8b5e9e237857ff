#include "plan/lengths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "plan/yaml_file.h"

namespace dpo::plan {
namespace {

// A prompt with its responses, truncated as the data pipeline does: first the prompt to its own limit, then
// the responses, if the longest is still too long.
struct Cut {
  double prompt, response_limit;

  Cut(double length, double longest, double max_length, double max_prompt_length)
      : prompt(length), response_limit(max_length) {
    const auto too_long = [&] { return prompt + longest > max_length; };
    if (too_long()) prompt = std::min(prompt, max_prompt_length);
    if (too_long()) response_limit = max_length - max_prompt_length;
  }
};

double causal(double prompt, double response) { return response * prompt + response * (response + 1) / 2; }

std::vector<double> read_parts(YamlFile& file, const std::string& key, double longest) {
  constexpr std::size_t kMostParts = 100;
  const std::vector<double> values = file.numbers(key, 0);
  if (values.empty() || values.size() > kMostParts || !std::is_sorted(values.begin(), values.end()))
    file.fail(fmt::format("'{}' must list 1 to {} means in ascending order", key, kMostParts));
  if (values.back() > longest) file.fail(fmt::format("'longest.{}' is less than a mean of '{}'", key, key));
  return values;
}

}  // namespace

Lengths load_lengths(const std::string& name_or_file) {
  YamlFile file("lengths", name_or_file);
  const auto count = [&](const char* key) { return static_cast<std::int64_t>(file.number(key, 0)); };
  Lengths lengths;
  lengths.name = std::filesystem::path(name_or_file).filename().string();
  lengths.train_prompts = count("train.prompts");
  lengths.train_pairs = count("train.pairs");
  lengths.test_prompts = count("test.prompts");
  lengths.test_pairs = lengths.test_rankings = count("test.pairs");
  lengths.train_rankings =
      static_cast<std::int64_t>(file.optional_number("train.rankings", 0).value_or(lengths.train_pairs));
  lengths.train_ranked = static_cast<std::int64_t>(
      file.optional_number("train.ranked", 0).value_or(2 * static_cast<double>(lengths.train_rankings)));
  const auto optional_count = [&](const char* key) {
    return static_cast<std::int64_t>(file.optional_number(key, 0).value_or(0));
  };
  lengths.train_labels = optional_count("train.labels");
  lengths.train_desirable = optional_count("train.desirable");
  lengths.test_labels = optional_count("test.labels");
  lengths.longest_ranking = file.optional_number("longest.ranking", 2).value_or(2);
  lengths.longest_prompt = file.number("longest.prompt", 0);
  lengths.longest_response = file.number("longest.response", 1);
  lengths.prompt = read_parts(file, "prompt", lengths.longest_prompt);
  lengths.response = read_parts(file, "response", lengths.longest_response);
  file.finish();
  return lengths;
}

std::vector<Lengths> extreme_lengths(std::int64_t max_length, std::int64_t batch_size) {
  const auto extreme = [](double length, std::int64_t count) {
    Lengths lengths;
    lengths.train_prompts = lengths.train_pairs = lengths.train_rankings = count;
    lengths.test_prompts = lengths.test_pairs = lengths.test_rankings = count;
    lengths.train_ranked = 2 * count;
    lengths.prompt = lengths.response = {length};
    lengths.longest_prompt = lengths.longest_response = length;
    return lengths;
  };
  constexpr std::int64_t kMany = 1'000'000'000;
  return {extreme(static_cast<double>(max_length), kMany), extreme(1, batch_size)};
}

ExampleTokens example_tokens(const Lengths& lengths, std::int64_t max_length, std::int64_t max_prompt_length,
                             ResponseCount responses) {
  const std::vector<double>& parts = lengths.response;
  const auto n = static_cast<double>(parts.size());
  const double count = responses.mean;
  const auto limit = static_cast<double>(max_length);
  const auto prompt_limit = static_cast<double>(std::min(max_prompt_length, max_length));
  ExampleTokens sum;
  double squares = 0;
  for (const double length : lengths.prompt)
    // Sums up by the part that the longest response is from, which alone decides whether anything is cut.
    for (std::size_t m = 0; m < parts.size(); ++m) {
      const Cut cut(length, parts[m], limit, prompt_limit);
      // Sums over the responses up to the longest: of all (first), and of the shorter ones.
      std::array<double, 2> tokens{}, tokens_squared{}, attended{};
      for (std::size_t j = 0; j <= m; ++j)
        for (std::size_t shorter = 0; shorter < (j < m ? 2u : 1u); ++shorter) {
          const double response = std::min(parts[j], cut.response_limit);
          tokens[shorter] += response;
          tokens_squared[shorter] += response * response;
          attended[shorter] += causal(cut.prompt, response);
        }
      // The longest response is from part m if all are from parts 0 to m, but not all from parts below m.
      // `free` is the number of responses that are not fixed by the sum.
      const auto all = [&](double free) { return std::pow((static_cast<double>(m) + 1) / n, free); };
      const auto below = [&](double free) { return m == 0 ? 0 : std::pow(static_cast<double>(m) / n, free); };
      const auto expected = [&](const std::array<double, 2>& s) {
        return count / n * (all(count - 1) * s[0] - below(count - 1) * s[1]);
      };
      const double likely = all(count) - below(count);
      const double both = count * (count - 1) / (n * n) *
                          (all(count - 2) * tokens[0] * tokens[0] - below(count - 2) * tokens[1] * tokens[1]);
      const double response = expected(tokens);
      sum.mean += likely * cut.prompt + response;
      squares +=
          likely * cut.prompt * cut.prompt + 2 * cut.prompt * response + expected(tokens_squared) + both;
      sum.response_mean += response;
      sum.attended += likely * causal(0, cut.prompt) + expected(attended);
      sum.repeated += likely * count * cut.prompt + response;
    }
  const auto prompts = static_cast<double>(lengths.prompt.size());
  for (double* total : {&sum.mean, &sum.response_mean, &sum.attended, &sum.repeated, &squares})
    *total /= prompts;
  // Only mean and limits of the numbers of responses are known. No distribution within them varies more.
  const double count_variance = (responses.most - count) * std::max(0.0, count - responses.least);
  const double mean_response = sum.response_mean / count;
  sum.deviation = std::sqrt(std::max(0.0, squares - sum.mean * sum.mean) +
                            count_variance * mean_response * mean_response);
  // After truncation a prompt and its longer response are within the limit, so these bounds hold for every
  // example.
  const double longest = std::min(lengths.longest_response, limit);
  sum.response_largest = responses.most * longest;
  sum.largest = std::min(lengths.longest_prompt + longest, limit) + (responses.most - 1) * longest;
  return sum;
}

SampledExample sample_example(const Lengths& lengths, std::int64_t max_length, std::int64_t max_prompt_length,
                              ResponseCount responses, std::mt19937_64& random) {
  const auto one_of = [&](const std::vector<double>& parts) { return parts[random() % parts.size()]; };
  const double least = std::floor(responses.mean), more = responses.mean - least;
  constexpr std::uint64_t kSteps = 1 << 20;  // of probabilities
  const bool has_more = static_cast<double>(random() % kSteps) < more * static_cast<double>(kSteps);
  const double prompt = one_of(lengths.prompt);
  std::vector<double> drawn(static_cast<std::size_t>(least) + (has_more ? 1 : 0));
  for (double& response : drawn) response = one_of(lengths.response);
  const Cut cut(prompt, std::ranges::max(drawn), static_cast<double>(max_length),
                static_cast<double>(std::min(max_prompt_length, max_length)));
  SampledExample example{std::llround(cut.prompt), {}};
  for (const double response : drawn)
    example.responses.push_back(
        std::max<std::int64_t>(1, std::llround(std::min(response, cut.response_limit))));
  return example;
}

}  // namespace dpo::plan
