#include "train/records.h"

#include <cmath>

#include <gtest/gtest.h>

#include "run/metrics.h"

namespace dpo::run {
namespace {

// A ranking of three and one of two of the same prompt; they share a response.
struct Batch {
  std::vector<data::Token> prompt = {1, 2}, a = {3, 4}, b = {5}, c = {6, 7, 8};
  train::ExampleBatch batch;
  data::Forest forest;

  Batch() {
    batch.indices = {40, 41};
    batch.examples = {{.prompt = prompt, .responses = {a, b, c}, .weight = 0.5},
                      {.prompt = prompt, .responses = {c, a}, .margin = 0.25}};
    forest = data::make_forest(batch.examples);
  }
};

config::LossConfig options(config::Loss loss) { return {.name = loss, .beta = 0.1}; }

TEST(Comparisons, AreRankingsWithTheirWeights) {
  const Batch made;
  const auto comparisons =
      train::comparisons_of(made.forest, made.batch, options(config::Loss::plackett_luce));
  ASSERT_EQ(comparisons.size(), 2u);
  EXPECT_EQ(comparisons[0].responses, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(comparisons[1].responses, (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(comparisons[0].weight, 0.5);
  EXPECT_EQ(comparisons[1].margin, 0.25);
  const auto single = train::comparisons_of(made.forest, made.batch, options(config::Loss::kto));
  ASSERT_EQ(single.size(), 5u);
  EXPECT_EQ(single[2].weight, 0.5);
  EXPECT_TRUE(single[3].desirable);
  EXPECT_FALSE(single[4].desirable);
}

TEST(Records, OfRankingsOfDifferentLengths) {
  const Batch made;
  const std::vector<loss::Score> scores = train::scores_of(made.forest, {-1, -5, -3}, {-2, -2, -2});
  const std::vector<train::Record> records = train::records_of(made.forest, scores, {4, 6}, made.batch);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].example, 40u);
  EXPECT_EQ(records[0].loss, 2);  // with its weight
  EXPECT_EQ(records[0].policy, (std::vector<double>{-1, -5, -3}));
  EXPECT_EQ(records[1].policy, (std::vector<double>{-3, -1}));
  EXPECT_EQ(records[1].tokens, (std::vector<std::int64_t>{3, 2}));
  // Rewards by rank: 1, -3, -1 and -1, 1 (times beta).
  const Metrics metrics = metrics_of(records, options(config::Loss::plackett_luce), "train");
  EXPECT_DOUBLE_EQ(value_of(metrics, "loss/train"), 4);
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/chosen"), 0);
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/rejected"), 0);
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/margins"), 0.1 * (2 - 2) / 2);
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/accuracies"), (2.0 / 3 + 0) / 2);
  EXPECT_DOUBLE_EQ(value_of(metrics, "logps_train/rejected"), (-3.0 - 1) / 2);
  EXPECT_DOUBLE_EQ(value_of(metrics, "tokens_train/rejected"), (3.0 + 2) / 2);
}

// A pair, a good and two bad responses give losses and metrics of an unpaired loss.
TEST(Records, OfLabelledResponses) {
  const std::vector<data::Token> prompt = {1, 2}, a = {3, 4}, b = {5}, c = {6, 7, 8};
  train::ExampleBatch batch;
  batch.indices = {0, 1, 2, 3};
  batch.examples = {{.prompt = prompt, .responses = {a, b}},
                    {.prompt = prompt, .responses = {c}},
                    {.prompt = prompt, .responses = {a}, .desirable = false},
                    {.prompt = prompt, .responses = {b}, .weight = 0.5, .desirable = false}};
  const data::Forest forest = data::make_forest(batch.examples);
  config::LossConfig kto = options(config::Loss::kto);
  kto.beta = 1;
  const auto comparisons = train::comparisons_of(forest, batch, kto);
  ASSERT_EQ(comparisons.size(), 5u);
  EXPECT_EQ(train::count_comparisons(batch, kto), 5u);
  EXPECT_EQ(train::count_comparisons(batch, options(config::Loss::sft)), 4u);
  std::string desirable;
  for (const loss::Comparison& comparison : comparisons) desirable += comparison.desirable ? '+' : '-';
  EXPECT_EQ(desirable, "+-+--");
  const std::vector<loss::Score> scores = train::scores_of(forest, {-1, -4, -6}, {-2, -2, -3});  // of a, b, c
  const std::vector<train::Record> records = train::records_of(forest, scores, {1, 3, 4, 6, 8}, batch);
  EXPECT_EQ(records[0].loss, 2);
  EXPECT_EQ(records[1].loss, 4);
  EXPECT_EQ(records[3].loss, 4);  // with its weight
  const Metrics metrics = metrics_of(records, kto, "train");
  EXPECT_DOUBLE_EQ(value_of(metrics, "loss/train"), (1 + 3 + 4 + 6 + 4) / 5.0);
  // Rewards: a 1, b -2, c -3.
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/chosen"), (1 - 3) / 2.0);
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/rejected"), (-2 + 1 - 2) / 3.0);
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/accuracies"), 1);  // of the pair
  EXPECT_DOUBLE_EQ(value_of(metrics, "rewards_train/margins"), 3);
  EXPECT_DOUBLE_EQ(value_of(metrics, "tokens_train/rejected"), (1 + 2 + 1) / 3.0);
  const Metrics good = metrics_of({&records[1], 1}, kto, "eval");
  EXPECT_DOUBLE_EQ(value_of(good, "rewards_eval/chosen"), -3);
  for (const char* const absent : {"rewards_eval/rejected", "rewards_eval/accuracies", "rewards_eval/margins",
                                   "logps_eval/rejected", "drift_eval/rejected"})
    EXPECT_TRUE(std::isnan(value_of(good, absent))) << absent;
  EXPECT_DOUBLE_EQ(value_of(good, "kl_eval/per_token"), 1);
}

}  // namespace
}  // namespace dpo::run
