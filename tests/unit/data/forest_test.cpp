#include "data/forest.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "random_batch.h"

namespace dpo::data {
namespace {

std::vector<Token> slice(const std::vector<Token>& tokens, std::int32_t from, std::int32_t to) {
  return {tokens.begin() + from, tokens.begin() + to};
}

std::vector<Token> copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

std::size_t tree_of_response(const Forest& forest, std::int32_t response) {
  std::size_t tree = 0;
  while (forest.tree_responses[tree + 1] <= response) ++tree;
  return tree;
}

std::vector<Token> prompt_of(const Forest& forest, std::size_t tree) {
  return slice(forest.tokens, forest.prompt_starts[tree], forest.prompt_starts[tree + 1]);
}

std::vector<Token> response_of(const Forest& forest, std::int32_t response) {
  const auto r = static_cast<std::size_t>(response);
  return slice(forest.tokens, forest.response_starts[r], forest.response_starts[r + 1]);
}

TEST(Forest, OfTwoPairsThatShareAPromptAndAResponse) {
  const std::vector<Token> prompt = {1, 2, 3}, a = {10, 11}, b = {20}, c = {30, 31, 32};
  const std::vector<Example> batch = {{.prompt = prompt, .responses = {a, b}},
                                      {.prompt = prompt, .responses = {c, a}}};
  const Forest forest = make_forest(batch);
  EXPECT_EQ(forest.tokens, (std::vector<Token>{1, 2, 3, 10, 11, 20, 30, 31, 32}));
  EXPECT_EQ(forest.positions, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 3, 3, 4, 5}));
  EXPECT_EQ(forest.prompt_starts, (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(forest.response_starts, (std::vector<std::int32_t>{3, 5, 6, 9}));
  EXPECT_EQ(forest.tree_responses, (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(forest.compared, (std::vector<std::int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(forest.example_starts, (std::vector<std::int32_t>{0, 2, 4}));
  // The prompt's last token, at 2, predicts every first token of a response.
  EXPECT_EQ(forest.rows, (std::vector<std::int32_t>{2, 3, 2, 2, 6, 7}));
  EXPECT_EQ(forest.targets, (std::vector<Token>{10, 11, 20, 30, 31, 32}));
  EXPECT_EQ(forest.row_starts, (std::vector<std::int32_t>{0, 2, 3, 6}));
}

TEST(Forest, AfterAnEmptyPromptTheFirstTokenIsNotPredicted) {
  const std::vector<Token> response = {7, 8, 9};
  const std::vector<Example> batch = {{.prompt = {}, .responses = {response}}};
  const Forest forest = make_forest(batch);
  EXPECT_EQ(forest.rows, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(forest.targets, (std::vector<Token>{8, 9}));
  EXPECT_EQ(forest.positions, (std::vector<std::int32_t>{0, 1, 2}));
}

// Response a is longer than b and shorter than c. It becomes two leaves, because its tail counts less in the
// first pair.
TEST(Forest, AResponseWhoseTailCountsLessIsALeafOfItsOwn) {
  const std::vector<Token> prompt = {1}, a = {10, 11}, b = {20}, c = {30, 31, 32};
  std::vector<Example> batch = {{.prompt = prompt, .responses = {a, b}},
                                {.prompt = prompt, .responses = {c, a}},
                                {.prompt = prompt, .responses = {b, c}}};
  EXPECT_TRUE(make_forest(batch).row_weights.empty());
  EXPECT_EQ(make_forest(batch).responses(), 3);
  for (Example& example : batch) {
    example.full_tokens = std::min(example.responses[0].size(), example.responses[1].size());
    example.tail_weight = 0.5;
  }
  const Forest forest = make_forest(batch);
  EXPECT_EQ(forest.tokens, (std::vector<Token>{1, 10, 11, 20, 30, 31, 32, 10, 11, 30, 31, 32}));
  EXPECT_EQ(forest.compared, (std::vector<std::int32_t>{0, 1, 2, 3, 1, 4}));
  EXPECT_EQ(forest.row_weights, (std::vector<float>{1, 0.5, 1, 1, 1, 0.5, 1, 1, 1, 0.5, 0.5}));
}

TEST(Forest, TokensThatAreNotScoredHaveNoRow) {
  const std::vector<Token> prompt = {1, 2}, a = {10, 11, 12, 13, 14};
  const std::vector<TokenRange> middle = {{1, 3}}, start_and_end = {{0, 1}, {4, 9}};
  const std::vector<Example> batch = {{.prompt = prompt, .responses = {a}, .unscored = {middle}},
                                      {.prompt = prompt, .responses = {a}, .unscored = {start_and_end}},
                                      {.prompt = prompt, .responses = {a}, .unscored = {middle}},
                                      {.prompt = prompt, .responses = {a}}};
  const Forest forest = make_forest(batch);
  EXPECT_EQ(forest.compared, (std::vector<std::int32_t>{0, 1, 0, 2}));  // other ranges are another leaf
  EXPECT_EQ(forest.size(), 2 + 3 * 5);                                  // all tokens are read
  EXPECT_EQ(forest.row_starts, (std::vector<std::int32_t>{0, 3, 6, 11}));
  EXPECT_EQ(forest.targets, (std::vector<Token>{10, 13, 14, 11, 12, 13, 10, 11, 12, 13, 14}));
  EXPECT_EQ(std::vector<std::int32_t>(forest.rows.begin(), forest.rows.begin() + 6),
            (std::vector<std::int32_t>{1, 4, 5, 7, 8, 9}));
}

TEST(Forest, RangesEndWithTheTruncatedResponse) {
  const std::vector<Token> prompt = {1}, a = {10, 11, 12, 13, 14};
  const std::vector<TokenRange> one = {{1, 3}, {4, 5}}, other = {{1, 2}};
  const auto cut = std::span(a).first(2);
  const std::vector<Example> batch = {{.prompt = prompt, .responses = {cut}, .unscored = {one}},
                                      {.prompt = prompt, .responses = {cut}, .unscored = {other}}};
  EXPECT_EQ(batch[0].unscored_of(0), other);
  EXPECT_EQ(batch[0].scored_tokens(0), 1u);
  const Forest forest = make_forest(batch);
  EXPECT_EQ(forest.compared, (std::vector<std::int32_t>{0, 0}));  // equal after truncation
  EXPECT_EQ(forest.targets, (std::vector<Token>{10}));
}

// The scored rows are those of the same examples without ranges, in the same order and with the same weights.
TEST(Forest, RangesOnlyRemoveRows) {
  RandomBatch random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Example> batch = random.make(1);
    if (batch[0].responses.size() > 1) batch[0].responses.resize(1);
    batch[0].full_tokens = static_cast<std::size_t>(random.below(3));
    batch[0].tail_weight = 0.5;
    const Forest whole = make_forest(batch);
    std::vector<TokenRange> ranges;
    for (std::uint32_t at = 0; at < 5;) {
      const auto begin = at + static_cast<std::uint32_t>(random.below(3));
      at = begin + static_cast<std::uint32_t>(random.below(3));
      ranges.push_back({begin, at});
    }
    batch[0].unscored = {ranges};
    const Forest masked = make_forest(batch);
    EXPECT_EQ(masked.tokens, whole.tokens);
    std::size_t row = 0;
    const std::size_t first = batch[0].prompt.empty() ? 1 : 0;
    for (std::size_t i = first; i < batch[0].responses[0].size(); ++i) {
      const auto holds = [i](const TokenRange& range) { return range.begin <= i && i < range.end; };
      if (std::ranges::any_of(ranges, holds)) continue;
      ASSERT_LT(row, masked.rows.size());
      EXPECT_EQ(masked.rows[row], whole.rows[i - first]);
      EXPECT_EQ(masked.targets[row], whole.targets[i - first]);
      const float weight = masked.row_weights.empty() ? 1 : masked.row_weights[row];
      EXPECT_EQ(weight, whole.row_weights.empty() ? 1 : whole.row_weights[i - first]);
      ++row;
    }
    EXPECT_EQ(row, masked.rows.size());
    if (first == 0) {
      EXPECT_EQ(row, batch[0].scored_tokens(0));
    }
  }
}

TEST(Forest, OfNothingIsEmpty) {
  const Forest forest = make_forest({});
  EXPECT_EQ(forest.size(), 0);
  EXPECT_EQ(forest.trees(), 0);
  EXPECT_EQ(forest.responses(), 0);
  EXPECT_TRUE(forest.examples.empty());
}

// Unpacking gives every example as the padded sequence that it came from, position by position, target by
// target.
TEST(Forest, UnpacksToTheExamples) {
  RandomBatch random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Example> batch = random.make(random.below(9));
    const Forest forest = make_forest(batch);
    ASSERT_EQ(forest.examples.size(), batch.size());
    for (std::size_t e = 0; e < batch.size(); ++e) {
      EXPECT_EQ(forest.examples[e], static_cast<std::int64_t>(e));
      const auto first = static_cast<std::size_t>(forest.example_starts[e]);
      ASSERT_EQ(forest.example_starts[e + 1] - forest.example_starts[e], std::ssize(batch[e].responses));
      for (std::size_t r = 0; r < batch[e].responses.size(); ++r) {
        const std::int32_t response = forest.compared[first + r];
        EXPECT_EQ(response_of(forest, response), copy(batch[e].responses[r]));
        EXPECT_EQ(prompt_of(forest, tree_of_response(forest, response)), copy(batch[e].prompt));
      }
    }
  }
}

TEST(Forest, StoresEverythingOnce) {
  RandomBatch random(2);
  for (int round = 0; round < 300; ++round) {
    const Forest forest = make_forest(random.make(8));
    std::set<std::vector<Token>> prompts;
    for (std::size_t tree = 0; tree < static_cast<std::size_t>(forest.trees()); ++tree) {
      EXPECT_TRUE(prompts.insert(prompt_of(forest, tree)).second);
      std::set<std::vector<Token>> responses;
      for (std::int32_t r = forest.tree_responses[tree]; r < forest.tree_responses[tree + 1]; ++r)
        EXPECT_TRUE(responses.insert(response_of(forest, r)).second);
    }
  }
}

// Computes the rows of a response: a causal model that sees prompt and response predicts target i after the
// token before it.
TEST(Forest, RowsPrecedeTheirTargets) {
  RandomBatch random(3);
  for (int round = 0; round < 300; ++round) {
    const Forest forest = make_forest(random.make(6));
    for (std::int32_t r = 0; r < forest.responses(); ++r) {
      const std::size_t tree = tree_of_response(forest, r);
      std::vector<Token> sequence = prompt_of(forest, tree);
      const std::size_t prompt = sequence.size();
      const std::vector<Token> response = response_of(forest, r);
      sequence.insert(sequence.end(), response.begin(), response.end());
      std::size_t position = std::max<std::size_t>(prompt, 1);
      for (auto i = forest.row_starts[static_cast<std::size_t>(r)];
           i < forest.row_starts[static_cast<std::size_t>(r) + 1]; ++i, ++position) {
        const auto row = static_cast<std::size_t>(forest.rows[static_cast<std::size_t>(i)]);
        EXPECT_EQ(forest.targets[static_cast<std::size_t>(i)], sequence[position]);
        EXPECT_EQ(forest.tokens[row], sequence[position - 1]);
        EXPECT_EQ(forest.positions[row], static_cast<std::int32_t>(position) - 1);
      }
      EXPECT_EQ(position, sequence.size());
    }
  }
}

}  // namespace
}  // namespace dpo::data
