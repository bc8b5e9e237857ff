#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "data/partition.h"
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

Division whole_trees(std::int64_t ranks) { return {.ranks = ranks, .prompts = Prompts::whole}; }

TEST(Partition, HasEveryExampleOnceAndBalancesWithinOneTree) {
  RandomBatch random(4);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Example> batch = random.make(random.below(20));
    const int parts = 1 + random.below(6);
    const Partition partition = partition_batch(batch, whole_trees(parts));
    ASSERT_EQ(std::ssize(partition.parts), parts);
    std::multiset<std::int64_t> seen;
    std::int64_t least = INT64_MAX, most = 0;
    for (const auto& [examples, elsewhere] : partition.parts) {
      seen.insert(examples.begin(), examples.end());
      EXPECT_TRUE(std::is_sorted(examples.begin(), examples.end()));
      EXPECT_TRUE(elsewhere.empty());
      least = std::min(least, tokens_of(batch, examples));
      most = std::max(most, tokens_of(batch, examples));
    }
    ASSERT_EQ(seen.size(), batch.size());
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), batch.size());
    EXPECT_LE(most - least, largest_tree(batch));
    EXPECT_EQ(partition.repeated_tokens, 0);
    EXPECT_EQ(partition.has_divided, std::vector<bool>{false});
  }
}

TEST(Partition, KeepsTreesWhole) {
  RandomBatch random(5);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Example> batch = random.make(12);
    std::int64_t whole = 0, divided = 0;
    for (const Part& part : partition_batch(batch, {}).parts) whole += tokens_of(batch, part.examples);
    for (const Part& part : partition_batch(batch, whole_trees(4)).parts)
      divided += tokens_of(batch, part.examples);
    EXPECT_EQ(divided, whole);  // no prompt is computed twice
  }
}

// The parts' forests have every response of every example once, and count the prompts that are repeated.
TEST(Partition, DividesResponsesOverTheRanksOfAMicrobatch) {
  RandomBatch random(7);
  int divided = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<Example> batch = random.make(random.below(12));
    const Division division{.ranks = 1 + random.below(6), .microbatches = 1 + random.below(3)};
    const Partition partition = partition_batch(batch, division);
    std::set<ExampleResponse> seen;
    std::set<std::pair<std::int64_t, std::size_t>> places;  // examples and their microbatches
    std::vector<bool> has_divided(static_cast<std::size_t>(division.microbatches));
    std::int64_t tokens = 0;
    for (std::size_t p = 0; p < partition.parts.size(); ++p) {
      const Part& part = partition.parts[p];
      const std::size_t microbatch = p % has_divided.size();
      if (!part.elsewhere.empty()) has_divided[microbatch] = true;
      const Forest forest = make_forest(batch, part);
      tokens += forest.size();
      EXPECT_EQ(forest.elsewhere, std::ssize(part.elsewhere));
      std::vector<std::int32_t> elsewhere;
      for (std::size_t e = 0; e < forest.examples.size(); ++e) {
        places.emplace(forest.examples[e], microbatch);
        bool has_one = false;
        for (std::int32_t i = forest.example_starts[e]; i < forest.example_starts[e + 1]; ++i) {
          const std::int32_t response = forest.compared[static_cast<std::size_t>(i)];
          const auto number = static_cast<std::size_t>(i - forest.example_starts[e]);
          if (response >= forest.responses()) {
            elsewhere.push_back(response);
            EXPECT_TRUE(
                std::ranges::binary_search(part.elsewhere, ExampleResponse{forest.examples[e], number}));
            continue;
          }
          has_one = true;
          EXPECT_TRUE(seen.insert({forest.examples[e], number}).second);
          const auto start = forest.response_starts[static_cast<std::size_t>(response)],
                     end = forest.response_starts[static_cast<std::size_t>(response) + 1];
          EXPECT_TRUE(std::ranges::equal(
              std::span(forest.tokens)
                  .subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(end - start)),
              batch[static_cast<std::size_t>(forest.examples[e])].responses[number]));
        }
        EXPECT_TRUE(has_one);
      }
      for (std::size_t i = 0; i < elsewhere.size(); ++i)
        EXPECT_EQ(elsewhere[i], forest.responses() + static_cast<std::int64_t>(i));
    }
    std::size_t responses = 0;
    for (const Example& example : batch) responses += example.responses.size();
    EXPECT_EQ(seen.size(), responses);
    EXPECT_EQ(places.size(), batch.size());
    EXPECT_EQ(partition.has_divided, has_divided);
    EXPECT_EQ(tokens - partition.repeated_tokens, make_forest(batch).size());
    divided += partition.repeated_tokens > 0;
  }
  EXPECT_GT(divided, 50);
}

TEST(Partition, DividesAPairOverTwoRanks) {
  const std::vector<Token> prompt = {1, 2, 3, 4}, a = {5, 6, 7, 8}, b = {6, 7, 8, 9, 10};
  const std::vector<Example> batch = {{prompt, {a, b}}};
  const Partition partition = partition_batch(batch, {.ranks = 3});
  EXPECT_EQ(partition.has_divided, std::vector<bool>{true});
  EXPECT_EQ(partition.repeated_tokens, 4);
  EXPECT_DOUBLE_EQ(partition.slowest_rank, 9 * 3 / 13.0);
  EXPECT_EQ(partition.parts[0].examples, std::vector<std::int64_t>{0});  // the longer one, b
  EXPECT_EQ(partition.parts[0].elsewhere, (std::vector<ExampleResponse>{{0, 0}}));
  EXPECT_EQ(partition.parts[1].elsewhere, (std::vector<ExampleResponse>{{0, 1}}));
  EXPECT_TRUE(partition.parts[2].examples.empty());
  const Forest forest = make_forest(batch, partition.parts[0]);
  EXPECT_EQ(forest.tokens, (std::vector<Token>{1, 2, 3, 4, 6, 7, 8, 9, 10}));
  EXPECT_EQ(forest.compared, (std::vector<std::int32_t>{1, 0}));  // a is elsewhere
  EXPECT_EQ(forest.elsewhere, 1);
}

TEST(Partition, DividesExamplesWithoutAPrompt) {
  const std::vector<Token> a = {1, 2, 3}, b = {4, 5}, c = {6, 7}, d = {8, 9, 10};
  // The first and the last example share a response, so they stay together.
  const std::vector<Example> batch = {{{}, {a, b}}, {{}, {c}}, {{}, {d}}, {{}, {b}}};
  const Partition partition = partition_batch(batch, whole_trees(3));
  EXPECT_EQ(partition.parts[0].examples, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(partition.parts[1].examples, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(partition.parts[2].examples, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(partition.repeated_tokens, 0);
}

TEST(Partition, MoreRanksThanTreesLeavesSomeEmpty) {
  RandomBatch random(6);
  const std::vector<Example> batch = random.make(1);
  const Partition partition = partition_batch(batch, whole_trees(4));
  EXPECT_EQ(std::ranges::count_if(partition.parts, [](const Part& part) { return part.examples.empty(); }),
            3);
}

// Text that is read but not scored has no rows in the head.
TEST(Partition, WeighsScoredTokens) {
  const std::vector<Token> prompt = {1}, long_text = {2, 3, 4, 5}, a = {6, 7}, b = {8, 9};
  const std::vector<TokenRange> unscored = {{0, 3}};
  std::vector<Example> batch = {{.prompt = prompt, .responses = {long_text}},
                                {.prompt = a, .responses = {b}},
                                {.prompt = b, .responses = {a}}};
  const Division division{.ranks = 2, .costs = {.token = 1, .row = 100}};
  // With 4 rows the first example weighs as much as both others.
  EXPECT_EQ(partition_batch(batch, division).parts[1].examples, (std::vector<std::int64_t>{0}));
  batch[0].unscored = {unscored};
  EXPECT_EQ(partition_batch(batch, division).parts[0].examples, (std::vector<std::int64_t>{0, 1}));
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
