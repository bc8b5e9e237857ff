#include "plan/lengths.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "plan/fact_file.h"

namespace dpo::plan {
namespace {

struct Cut {
  double prompt, first, second;
};

// Truncation as the data pipeline does it: first the prompt to its own limit, then the responses.
Cut truncate(double prompt, double first, double second, double max_length, double max_prompt_length) {
  const auto too_long = [&] { return prompt + std::max(first, second) > max_length; };
  if (too_long()) prompt = std::min(prompt, max_prompt_length);
  if (too_long()) {
    first = std::min(first, max_length - max_prompt_length);
    second = std::min(second, max_length - max_prompt_length);
  }
  return {prompt, first, second};
}

double causal(double prompt, double response) { return response * prompt + response * (response + 1) / 2; }

std::vector<double> read_parts(FactFile& file, const std::string& key, double longest) {
  constexpr std::size_t kMostParts = 100;
  const std::vector<double> values = file.numbers(key, 0);
  if (values.empty() || values.size() > kMostParts || !std::is_sorted(values.begin(), values.end()))
    file.fail(fmt::format("'{}' must list 1 to {} means in rising order", key, kMostParts));
  if (values.back() > longest) file.fail(fmt::format("'longest.{}' is less than a mean of '{}'", key, key));
  return values;
}

}  // namespace

Lengths load_lengths(const std::string& name_or_file) {
  FactFile file("lengths", name_or_file);
  const auto count = [&](const char* key) { return static_cast<std::int64_t>(file.number(key, 0)); };
  Lengths lengths;
  lengths.name = std::filesystem::path(name_or_file).filename().string();
  lengths.train_prompts = count("train.prompts");
  lengths.train_pairs = count("train.pairs");
  lengths.test_prompts = count("test.prompts");
  lengths.test_pairs = count("test.pairs");
  lengths.longest_prompt = file.number("longest.prompt", 0);
  lengths.longest_response = file.number("longest.response", 1);
  lengths.prompt = read_parts(file, "prompt", lengths.longest_prompt);
  lengths.response = read_parts(file, "response", lengths.longest_response);
  file.finish();
  return lengths;
}

ExampleTokens example_tokens(const Lengths& lengths, std::int64_t max_length, std::int64_t max_prompt_length,
                             int responses) {
  const std::vector<double>& prompts = lengths.prompt;
  const std::vector<double>& firsts = lengths.response;
  const std::vector<double> seconds = responses == 2 ? firsts : std::vector<double>{0};
  const auto limit = static_cast<double>(max_length);
  const auto prompt_limit = static_cast<double>(max_prompt_length);
  ExampleTokens sum;
  double squares = 0;
  for (const double p : prompts)
    for (const double x : firsts)
      for (const double y : seconds) {
        const Cut cut = truncate(p, x, y, limit, prompt_limit);
        const double tokens = cut.prompt + cut.first + cut.second;
        sum.mean += tokens;
        squares += tokens * tokens;
        sum.response_mean += cut.first + cut.second;
        sum.attended +=
            causal(0, cut.prompt) + causal(cut.prompt, cut.first) + causal(cut.prompt, cut.second);
        sum.repeated += tokens + (responses - 1) * cut.prompt;
      }
  const auto cases = static_cast<double>(prompts.size() * firsts.size() * seconds.size());
  for (double* total : {&sum.mean, &sum.response_mean, &sum.attended, &sum.repeated}) *total /= cases;
  sum.deviation = std::sqrt(std::max(0.0, squares / cases - sum.mean * sum.mean));
  // After truncation a prompt and its longer response are within the limit, so these bounds hold for every
  // example.
  const double longest = std::min(lengths.longest_response, limit);
  sum.response_largest = responses * longest;
  sum.largest = std::min(lengths.longest_prompt + longest, limit) + (responses - 1) * longest;
  return sum;
}

}  // namespace dpo::plan
