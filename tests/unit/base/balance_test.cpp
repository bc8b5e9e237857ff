#include "base/balance.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace dpo {
namespace {

std::vector<TreeCost> random_trees(std::mt19937& random, int most_responses) {
  std::vector<TreeCost> trees(random() % 40);
  for (TreeCost& tree : trees) {
    tree.prompt = static_cast<std::int64_t>(random() % 300);
    tree.responses.resize(1 + random() % static_cast<unsigned>(most_responses));
    for (std::int64_t& response : tree.responses) response = 1 + static_cast<std::int64_t>(random() % 100);
  }
  return trees;
}

// Returns the cost of every part: its responses, and each prompt once.
std::vector<std::int64_t> loads_of(const std::vector<TreeCost>& trees, const Balance& balance,
                                   std::int64_t parts) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(parts));
  for (std::size_t t = 0; t < trees.size(); ++t) {
    for (std::size_t r = 0; r < trees[t].responses.size(); ++r)
      loads.at(static_cast<std::size_t>(balance.part_of[t][r])) += trees[t].responses[r];
    for (const std::int32_t part : std::set(balance.part_of[t].begin(), balance.part_of[t].end()))
      loads[static_cast<std::size_t>(part)] += trees[t].prompt;
  }
  return loads;
}

// Returns the sum of the slowest ranks' costs over all microbatches.
std::int64_t slowest_of(const std::vector<std::int64_t>& loads, std::int64_t microbatches) {
  std::vector<std::int64_t> slowest(static_cast<std::size_t>(microbatches));
  for (std::size_t part = 0; part < loads.size(); ++part) {
    std::int64_t& most = slowest[part % slowest.size()];
    most = std::max(most, loads[part]);
  }
  return std::accumulate(slowest.begin(), slowest.end(), std::int64_t{0});
}

std::int64_t sum_of(const std::vector<TreeCost>& trees) {
  std::int64_t sum = 0;
  for (const TreeCost& tree : trees) sum += tree.whole();
  return sum;
}

TEST(Balancing, DividesTreesWithinOneMicrobatchAndOnlyIfTheSlowestRankIsCheaper) {
  std::mt19937 random(1);
  int divided_rounds = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<TreeCost> trees = random_trees(random, round % 2 == 0 ? 3 : 12);
    const std::int64_t ranks = 1 + static_cast<std::int64_t>(random() % 9);
    const std::int64_t microbatches = 1 + static_cast<std::int64_t>(random() % 4);
    const Balance whole = balance(trees, ranks, microbatches, Prompts::whole);
    const Balance divided = balance(trees, ranks, microbatches, Prompts::divided);
    bool is_divided = false;
    for (std::size_t t = 0; t < trees.size(); ++t) {
      ASSERT_EQ(divided.part_of[t].size(), trees[t].responses.size());
      const auto microbatch = [&](std::int32_t part) { return part % microbatches; };
      for (const std::int32_t part : divided.part_of[t])
        EXPECT_EQ(microbatch(part), microbatch(divided.part_of[t].front()));
      EXPECT_EQ(std::set(whole.part_of[t].begin(), whole.part_of[t].end()).size(), 1u);
      is_divided |= std::set(divided.part_of[t].begin(), divided.part_of[t].end()).size() > 1;
    }
    const std::vector<std::int64_t> loads = loads_of(trees, divided, ranks * microbatches);
    const std::int64_t slowest = slowest_of(loads, microbatches);
    const std::int64_t before = slowest_of(loads_of(trees, whole, ranks * microbatches), microbatches);
    EXPECT_LE(slowest, before);
    if (is_divided) {
      EXPECT_LT(slowest, before);
    }
    if (!trees.empty()) {
      EXPECT_DOUBLE_EQ(divided.slowest_rank,
                       static_cast<double>(slowest * ranks) / static_cast<double>(sum_of(trees)));
      EXPECT_GE(divided.slowest_rank, 1);
    }
    divided_rounds += is_divided;
    EXPECT_EQ(balance(trees, ranks, microbatches, Prompts::divided).part_of, divided.part_of);
  }
  EXPECT_GT(divided_rounds, 100);
}

TEST(Balancing, OneRankKeepsTreesWhole) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const std::vector<TreeCost> trees = random_trees(random, 6);
    EXPECT_EQ(balance(trees, 1, 4, Prompts::divided).part_of, balance(trees, 4, 1, Prompts::whole).part_of);
    EXPECT_EQ(balance(trees, 1, 4, Prompts::divided).slowest_rank, 1);
  }
}

TEST(Balancing, RepeatsAPromptOnlyIfThatPays) {
  using PartOf = std::vector<std::vector<std::int32_t>>;
  // Two ranks and one tree: both compute the prompt, and the slowest rank has 60 instead of 70.
  EXPECT_EQ(balance(std::vector<TreeCost>{{50, {10, 10}}}, 2, 1, Prompts::divided).part_of, (PartOf{{0, 1}}));
  // The slowest rank would have 999 of 1000.
  EXPECT_EQ(balance(std::vector<TreeCost>{{998, {1, 1}}}, 2, 1, Prompts::divided).part_of, (PartOf{{0, 0}}));
  // Beside a tree of 70, dividing another tree of 70 would only make a rank slower.
  EXPECT_EQ(balance(std::vector<TreeCost>{{50, {10, 10}}, {50, {10, 10}}}, 2, 1, Prompts::divided).part_of,
            (PartOf{{0, 0}, {1, 1}}));
  // A prompt with many responses is computed by every rank.
  const Balance many =
      balance(std::vector<TreeCost>{{10, std::vector<std::int64_t>(40, 10)}}, 8, 1, Prompts::divided);
  EXPECT_EQ(std::set(many.part_of[0].begin(), many.part_of[0].end()).size(), 8u);
  EXPECT_DOUBLE_EQ(many.slowest_rank, 60.0 * 8 / 410);
}

// The ranks of a microbatch wait for each other, so they get trees of about the same size.
TEST(Balancing, LargeTreesMeetInOneMicrobatch) {
  std::vector<TreeCost> trees;
  for (const std::int64_t prompt : {100, 10, 100, 10, 10, 100, 10, 100}) trees.push_back({prompt, {1}});
  const Balance found = balance(trees, 4, 2, Prompts::divided);
  EXPECT_DOUBLE_EQ(found.slowest_rank, 1);
  for (std::size_t t = 0; t < trees.size(); ++t)
    EXPECT_EQ(found.part_of[t][0] % 2, trees[t].prompt == 100 ? 0 : 1);
}

TEST(Balancing, CountsTokensRowsAndAttention) {
  const UnitCosts costs{.token = 100, .row = 7, .attended = 1};
  EXPECT_EQ(prompt_cost(costs, 4), 4 * 100 + 10);                         // 4 * 5 / 2 pairs
  EXPECT_EQ(response_cost(costs, 4, 3, 2), 3 * 100 + 2 * 7 + 3 * 4 + 6);  // each sees the prompt
  EXPECT_EQ((TreeCost{5, {2, 3}}).whole(), 10);
}

}  // namespace
}  // namespace dpo
