#include "data/order.h"

#include <algorithm>
#include <stdexcept>

#include <gtest/gtest.h>

namespace dpo::data {
namespace {

using Numbers = std::vector<std::uint32_t>;

// Returns all batches one after another, each followed by 999.
Numbers walk(const Numbers& starts, OrderLimits limits, std::uint32_t seed = 0) {
  ExampleOrder order(starts, seed, limits);
  Numbers all;
  while (const auto batch = order.next()) {
    all.insert(all.end(), batch->begin(), batch->end());
    all.push_back(999);
  }
  return all;
}

TEST(Random, IsPythonsAndNumpys) {
  // random.seed(42); v = list(range(10)); random.shuffle(v)
  Numbers values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  PythonRandom(42).shuffle(values);
  EXPECT_EQ(values, (Numbers{7, 3, 2, 8, 5, 6, 9, 4, 0, 1}));
  // numpy.random.seed(42); numpy.random.randint(0, 2**32, size=2)
  NumpyLegacyRandom numpy(42);
  EXPECT_EQ(numpy(), 1608637542u);
  EXPECT_EQ(numpy(), 3421126067u);
  // numpy.random.default_rng(42).permutation(10)
  EXPECT_EQ(numpy_permutation(42, 10), (Numbers{5, 6, 0, 7, 3, 2, 4, 9, 1, 8}));
}

TEST(Random, DrawsFromOneAndFromNothing) {
  EXPECT_EQ(PythonRandom(7).below(1), 0u);
  EXPECT_TRUE(numpy_permutation(1, 0).empty());
  EXPECT_EQ(numpy_permutation(1, 1), Numbers{0});
}

TEST(Order, KeepsTheExamplesOfAPromptTogether) {
  // 2357136044 is the first epoch seed of seed 0.
  Numbers prompts = {0, 1, 2};
  PythonRandom(2357136044u).shuffle(prompts);
  const Numbers starts = {0, 1, 3, 6};
  Numbers expected;
  for (const std::uint32_t p : prompts)
    for (std::uint32_t e = starts[p]; e < starts[p + 1]; ++e) {
      expected.push_back(e);
      expected.push_back(999);
    }
  EXPECT_EQ(walk(starts, {1, 1, {}}), expected);
}

TEST(Order, ShufflesTheOrderOfTheEpochBefore) {
  NumpyLegacyRandom seeds(5);
  Numbers prompts = {0, 1, 2, 3};
  Numbers expected;
  for (int epoch = 0; epoch < 3; ++epoch) {
    PythonRandom(static_cast<std::uint32_t>(seeds())).shuffle(prompts);
    expected.insert(expected.end(), prompts.begin(), prompts.end());
    expected.push_back(999);
  }
  EXPECT_EQ(walk({0, 1, 2, 3, 4}, {4, 3, {}}, 5), expected);
}

TEST(Order, LeavesOutThePartialBatchOfEachEpoch) {
  const Numbers all = walk({0, 1, 2, 3, 4, 5}, {2, 2, {}});
  EXPECT_EQ(std::count(all.begin(), all.end(), 999u), 4);
}

TEST(Order, CountsExamplesOfPartialBatchesAsGivenOut) {
  // Five examples, batches of two: 2, 4, then one lost (5), 7 >= 6 ends.
  const Numbers all = walk({0, 1, 2, 3, 4, 5}, {2, {}, 6});
  EXPECT_EQ(std::count(all.begin(), all.end(), 999u), 3);
}

TEST(Order, EndsWithWhatComesFirst) {
  const Numbers starts = {0, 1, 2, 3, 4};
  EXPECT_EQ(walk(starts, {2, 1, 100}).size(), 6u);
  EXPECT_EQ(walk(starts, {2, 100, 3}).size(), 6u);  // n_examples is checked after full batches only
  EXPECT_TRUE(walk(starts, {5, 3, {}}).empty());
}

TEST(Order, RefusesToLookForABatchForever) {
  const Numbers starts = {0, 1, 2};
  EXPECT_THROW(ExampleOrder(starts, 0, {3, {}, 10}), std::invalid_argument);
}

TEST(Order, PassesOverPromptsWithoutExamples) {
  Numbers all = walk({0, 0, 1, 1, 2}, {2, 1, {}});
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Numbers{0, 1, 999}));
}

}  // namespace
}  // namespace dpo::data
