#include "plan/lengths.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::plan {
namespace {

Lengths lengths(std::vector<double> prompt, std::vector<double> response) {
  Lengths l;
  l.longest_prompt = prompt.back();
  l.longest_response = response.back();
  l.prompt = std::move(prompt);
  l.response = std::move(response);
  return l;
}

TEST(ExampleTokens, ComputeEachTokenOnce) {
  const ExampleTokens pair = example_tokens(lengths({100}, {50}), 512, 256, {2, 2});
  EXPECT_EQ(pair.mean, 200);
  EXPECT_EQ(pair.response_mean, 100);
  EXPECT_EQ(pair.repeated, 300);
  EXPECT_EQ(pair.deviation, 0);
  EXPECT_EQ(pair.largest, 200);
  const ExampleTokens single = example_tokens(lengths({100}, {50}), 512, 256, {1, 1});
  EXPECT_EQ(single.mean, 150);
  EXPECT_EQ(single.repeated, 150);
  EXPECT_EQ(single.attended, 150 * 151 / 2);  // a whole causal sequence
}

TEST(ExampleTokens, AreTruncatedAsTheDataIs) {
  // 400 + 200 > 512: the prompt is cut to 256; then it fits.
  EXPECT_EQ(example_tokens(lengths({400}, {200}), 512, 256, {1, 1}).mean, 256 + 200);
  // 400 + 300: the prompt is cut, still too long, so the response is cut to 512 - 256.
  EXPECT_EQ(example_tokens(lengths({400}, {300}), 512, 256, {1, 1}).mean, 512);
  // A long prompt that fits with its response is not cut.
  EXPECT_EQ(example_tokens(lengths({400}, {100}), 512, 256, {1, 1}).mean, 500);
}

// Half of the examples have one response and half have two. These are the mean and deviation of that mixture.
TEST(ExampleTokens, OfOneOrTwoResponses) {
  const ExampleTokens mixed = example_tokens(lengths({100}, {50}), 512, 256, {1.5, 2, 1});
  EXPECT_DOUBLE_EQ(mixed.mean, 175);
  EXPECT_DOUBLE_EQ(mixed.deviation, 25);
  EXPECT_EQ(mixed.largest, 200);
}

TEST(ExampleTokens, AverageOverIndependentLengths) {
  const ExampleTokens pair = example_tokens(lengths({10, 30}, {2, 6}), 512, 256, {2, 2});
  EXPECT_EQ(pair.mean, 20 + 4 + 4);
  EXPECT_DOUBLE_EQ(pair.deviation, std::sqrt(100 + 4 + 4));
  EXPECT_EQ(pair.largest, 30 + 6 + 6);
  EXPECT_EQ(pair.response_largest, 12);
}

// Computes every combination of four responses by hand, to check the formula by the longest one.
TEST(ExampleTokens, OfRankingsAreThoseOfAllCombinations) {
  const Lengths l = lengths({10, 30, 60}, {2, 6, 40});
  double mean = 0, squares = 0, attended = 0;
  for (const double p : l.prompt)
    for (std::size_t i = 0; i < 81; ++i) {
      const std::array<double, 4> drawn = {l.response[i % 3], l.response[i / 3 % 3], l.response[i / 9 % 3],
                                           l.response[i / 27]};
      const double longest = *std::max_element(drawn.begin(), drawn.end());
      const double prompt = p + longest > 64 ? std::min(p, 32.0) : p;
      double tokens = prompt;
      attended += prompt * (prompt + 1) / 2 / 243;
      for (double response : drawn) {
        if (prompt + longest > 64) response = std::min(response, 32.0);
        tokens += response;
        attended += (prompt * response + response * (response + 1) / 2) / 243;
      }
      mean += tokens / 243;
      squares += tokens * tokens / 243;
    }
  const ExampleTokens ranking = example_tokens(l, 64, 32, {4, 4});
  EXPECT_NEAR(ranking.mean, mean, 1e-9);
  EXPECT_NEAR(ranking.deviation, std::sqrt(squares - mean * mean), 1e-9);
  EXPECT_NEAR(ranking.attended, attended, 1e-9);
  EXPECT_EQ(ranking.response_largest, 160);
  EXPECT_GT(example_tokens(l, 64, 32, {4, 9}).deviation, ranking.deviation);
}

TEST(ExampleTokens, OfHelpfulAndHarmlessPairsAreNearThoseCounted) {
  // On the rows of the shipped statistics, 206.1 tokens per pair were counted.
  EXPECT_NEAR(example_tokens(load_lengths("hh"), 512, 256, {2, 2}).mean, 206.1, 0.03 * 206.1);
}

TEST(LoadLengths, NamesWhatIsUnknown) {
  try {
    load_lengths("hhh");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "no lengths named 'hhh' (built in: hh; or give a YAML file); did you mean 'hh'?");
  }
}

}  // namespace
}  // namespace dpo::plan
