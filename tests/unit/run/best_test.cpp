#include "run/best.h"

#include <gtest/gtest.h>

#include <limits>

namespace dpo::run {
namespace {

const std::vector<data::Token> kPrompt = {1, 2}, kGood = {3, 4}, kBad = {5};

train::ExampleBatch batch_of(std::vector<data::Example> examples) {
  return {data::Split::Test, {}, std::move(examples)};
}

data::Example pair_of(const std::vector<data::Token>& prompt) { return {prompt, {kGood, kBad}}; }

TEST(Best, IsOfExamplesInAnyOrderAndBatches) {
  const data::Example a = pair_of(kPrompt), b = pair_of(kGood), c = pair_of(kBad);
  const std::string set = set_of(std::vector{batch_of({a, b}), batch_of({c})});
  EXPECT_TRUE(set.starts_with("3 examples with SHA-256 ")) << set;
  EXPECT_EQ(set_of(std::vector{batch_of({c, a, b})}), set);
  EXPECT_NE(set_of(std::vector{batch_of({a, b})}), set);
  EXPECT_NE(set_of(std::vector{batch_of({a, b, b})}), set);
  data::Example other = c;
  other.responses = {kBad, kGood};
  EXPECT_NE(set_of(std::vector{batch_of({a, b, other})}), set);
}

class Resumed : public testing::Test {
 protected:
  Resumed() { config_.best_metric = config::BestMetric::loss; }

  // Returns the notes for the user.
  std::string begin(const std::vector<train::ExampleBatch>& evaluation) {
    std::string said;
    begin_comparison(state_, config_, evaluation,
                     {[&](const train::Event& event) { said += event.line; }, {}});
    return said;
  }

  bool evaluate(std::int64_t examples, double loss) {
    state_.examples = examples;
    return is_new_best(state_, {{"loss/eval", loss}, {"rewards_eval/accuracies", -loss}}, config_);
  }

  config::RunConfig config_;
  RunState state_;
  const std::vector<train::ExampleBatch> first_{batch_of({pair_of(kPrompt)})},
      second_{batch_of({pair_of(kGood)})};
};

TEST_F(Resumed, ComparesOnlyEqualSets) {
  EXPECT_EQ(begin(first_), "");
  EXPECT_TRUE(evaluate(8, 0.5));
  EXPECT_FALSE(evaluate(16, 0.6));
  EXPECT_EQ(begin(first_), "");
  EXPECT_FALSE(evaluate(24, 0.5));
  const std::string said = begin(second_);
  EXPECT_TRUE(said.starts_with("note: step-8 is the best by loss/eval of 1 example with SHA-256 ")) << said;
  EXPECT_EQ(state_.best, std::nullopt);
  EXPECT_TRUE(evaluate(32, 0.9)) << "0.5 was of other examples";
  EXPECT_EQ(state_.best_examples, 32);
  EXPECT_EQ(begin(second_), "") << "said once";
}

TEST_F(Resumed, ComparesOnlyOneMetric) {
  begin(first_);
  EXPECT_TRUE(evaluate(8, 0.5));
  config_.best_metric = config::BestMetric::accuracies;
  EXPECT_NE(begin(first_), "");
  EXPECT_TRUE(evaluate(16, 0.7));
  EXPECT_FALSE(evaluate(24, 0.8)) << "the higher the better";
  EXPECT_FALSE(evaluate(24, std::numeric_limits<double>::quiet_NaN()));
}

TEST_F(Resumed, DoesNotTrustValuesOfUnknownExamples) {
  state_.comparison.metric = "loss/eval";  // in a checkpoint of an older dpo
  state_.best = 0.1;
  EXPECT_NE(begin(first_).find("of examples that an older dpo did not record"), std::string::npos);
  EXPECT_TRUE(evaluate(8, 0.5));
}

}  // namespace
}  // namespace dpo::run
