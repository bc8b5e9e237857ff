#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "data/forest.h"
#include "data/statistics.h"
#include "random_batch.h"

namespace dpo::data {
namespace {

std::int64_t tokens_of(std::span<const Example> batch, std::span<const std::int64_t> examples) {
  std::int64_t sum = 0;
  for (const Tree& tree : grow_trees(batch, examples)) sum += tree.tokens();
  return sum;
}

std::int64_t largest_tree(std::span<const Example> batch) {
  std::int64_t largest = 0;
  for (const Tree& tree : grow_trees(batch)) largest = std::max(largest, tree.tokens());
  return largest;
}

TEST(Partition, HasEveryExampleOnceAndBalancesWithinOneTree) {
  RandomBatch random(4);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Example> batch = random.make(random.below(20));
    const int parts = 1 + random.below(6);
    const Partition partition = partition_batch(batch, parts, 0);
    ASSERT_EQ(std::ssize(partition.parts), parts);
    std::multiset<std::int64_t> seen;
    std::int64_t least = INT64_MAX, most = 0;
    for (const auto& part : partition.parts) {
      seen.insert(part.begin(), part.end());
      EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
      least = std::min(least, tokens_of(batch, part));
      most = std::max(most, tokens_of(batch, part));
    }
    ASSERT_EQ(seen.size(), batch.size());
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), batch.size());
    EXPECT_LE(most - least, largest_tree(batch));
    EXPECT_EQ(partition.repeated_prompts, 0);
  }
}

TEST(Partition, KeepsTreesWhole) {
  RandomBatch random(5);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Example> batch = random.make(12);
    std::int64_t whole = 0, divided = 0;
    for (const auto& part : partition_batch(batch, 1, 0).parts) whole += tokens_of(batch, part);
    for (const auto& part : partition_batch(batch, 4, 0).parts) divided += tokens_of(batch, part);
    EXPECT_EQ(divided, whole);  // no prompt is computed twice
  }
}

TEST(Partition, CutsOnlyATreeThatIsLargerThanTheBudget) {
  const std::vector<Token> prompt = {1, 2, 3, 4}, a = {5}, b = {6}, c = {7}, other = {9}, d = {8};
  const std::vector<Example> batch = {{prompt, {a}}, {prompt, {b}}, {prompt, {c}}, {other, {d}}};
  // The first tree has 7 tokens: within 7 it is whole, within 6 it is cut into {a, b} and {c}.
  EXPECT_EQ(partition_batch(batch, 2, 7).repeated_prompts, 0);
  const Partition cut = partition_batch(batch, 2, 6);
  EXPECT_EQ(cut.repeated_prompts, 1);
  EXPECT_EQ(cut.parts[0], (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(cut.parts[1], (std::vector<std::int64_t>{2, 3}));
  // A single example cannot be cut, whatever the budget.
  EXPECT_EQ(partition_batch(batch, 2, 1).repeated_prompts, 2);
}

TEST(Partition, DividesExamplesWithoutAPrompt) {
  const std::vector<Token> a = {1, 2, 3}, b = {4, 5}, c = {6, 7}, d = {8, 9, 10};
  // The first and the last example share a response, so they stay together.
  const std::vector<Example> batch = {{{}, {a, b}}, {{}, {c}}, {{}, {d}}, {{}, {b}}};
  const Partition partition = partition_batch(batch, 3, 0);
  EXPECT_EQ(partition.parts[0], (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(partition.parts[1], (std::vector<std::int64_t>{2}));
  EXPECT_EQ(partition.parts[2], (std::vector<std::int64_t>{1}));
  EXPECT_EQ(partition.repeated_prompts, 0);
}

TEST(Partition, MoreRanksThanTreesLeavesSomeEmpty) {
  RandomBatch random(6);
  const std::vector<Example> batch = random.make(1);
  const Partition partition = partition_batch(batch, 4, 0);
  EXPECT_EQ(
      std::count_if(partition.parts.begin(), partition.parts.end(), [](const auto& p) { return p.empty(); }),
      3);
}

TEST(Packing, CountsWhatItSaves) {
  const std::vector<Token> prompt = {1, 2, 3, 4}, a = {5, 6}, b = {7}, short_prompt = {1};
  PackingStatistics statistics;
  statistics.add(std::vector<Example>{{prompt, {a, b}}, {short_prompt, {b, b}}});
  EXPECT_EQ(statistics.computed, (4 + 2 + 1) + (1 + 1));  // equal responses count once
  EXPECT_EQ(statistics.repeated, 6 + 5 + 2 + 2);
  EXPECT_EQ(statistics.padded, 4 * 6);
  EXPECT_EQ(statistics.examples, 2);
  EXPECT_DOUBLE_EQ(statistics.times_saved(), 24.0 / 9);
  EXPECT_DOUBLE_EQ(statistics.padding_avoided(), 9.0 / 9);
  EXPECT_DOUBLE_EQ(statistics.sharing_avoided(), 6.0 / 9);
  EXPECT_EQ(PackingStatistics{}.times_saved(), 0);
}

}  // namespace
}  // namespace dpo::data
