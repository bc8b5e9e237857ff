#include "run/diagnosis.h"

#include <gtest/gtest.h>

namespace dpo::run {
namespace {

Metrics update(double number, double norm) { return {{"grad_norm", norm}, {"counters/updates", number}}; }

Metrics evaluation(double chosen, double margin, double accuracy) {
  return {{"loss/eval", 0.6},
          {"logps_eval/chosen", chosen},
          {"rewards_eval/margins", margin},
          {"rewards_eval/accuracies", accuracy},
          {"tokens_eval/chosen", 50},
          {"counters/eval_examples", 256}};
}

std::vector<Sample> samples(std::int64_t tokens, bool ended, bool cut = false) {
  return {8, Sample{"", "", tokens, ended, cut}};
}

TEST(Diagnosis, ClippingAtEveryUpdateIsReportedOnce) {
  Diagnosis diagnosis(10);
  for (int i = 1; i < 50; ++i) EXPECT_TRUE(diagnosis.after_update(update(i, 11)).empty());
  const auto said = diagnosis.after_update(update(50, 11));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].text.find("each of the last 50 updates"), std::string::npos);
  EXPECT_TRUE(diagnosis.after_update(update(51, 11)).empty());
  EXPECT_EQ(diagnosis.warnings().size(), 1U);
}

TEST(Diagnosis, OccasionalClippingIsNotReported) {
  Diagnosis diagnosis(10);
  for (int i = 1; i < 200; ++i)
    EXPECT_TRUE(diagnosis.after_update(update(i, i % 40 == 0 ? 9 : 11)).empty()) << i;
}

TEST(Diagnosis, ChosenResponsesBecomeLessLikelyWhileMarginsGrow) {
  Diagnosis diagnosis(10);
  EXPECT_TRUE(diagnosis.after_evaluation(evaluation(-100, 0, 0.5)).empty());
  EXPECT_TRUE(diagnosis.after_evaluation(evaluation(-104, 0.5, 0.6)).empty());  // 0.08 nats a token
  EXPECT_TRUE(diagnosis.after_evaluation(evaluation(-90, 0.5, 0.6)).empty());
  EXPECT_TRUE(diagnosis.after_evaluation(evaluation(-120, -0.1, 0.4)).empty());
  const auto said = diagnosis.after_evaluation(evaluation(-120, 0.8, 0.7));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].text.find("20.0 nats less on average, 0.40 a token"), std::string::npos) << said[0].text;
}

TEST(Diagnosis, AccuracyAtChanceCountsAfterHundredUpdates) {
  Diagnosis diagnosis(10);
  EXPECT_TRUE(diagnosis.after_evaluation(evaluation(-100, 0, 0.5)).empty());
  diagnosis.after_update(update(99, 1));
  EXPECT_TRUE(diagnosis.after_evaluation(evaluation(-100, 0, 0.5)).empty());
  diagnosis.after_update(update(100, 1));
  EXPECT_TRUE(
      diagnosis.after_evaluation(evaluation(-100, 0, 0.57)).empty());  // 256 pairs: chance ends at 0.5625
  EXPECT_EQ(diagnosis.after_evaluation(evaluation(-100, 0, 0.56)).size(), 1U);
}

TEST(Diagnosis, SamplesThatGetLongerOrDoNotEnd) {
  Diagnosis diagnosis(10);
  EXPECT_TRUE(diagnosis.after_samples(samples(100, true)).empty());
  EXPECT_TRUE(diagnosis.after_samples(samples(150, true)).empty());
  EXPECT_TRUE(diagnosis.after_samples(samples(151, false, /*cut=*/true)).empty());
  EXPECT_EQ(diagnosis.after_samples(samples(151, true)).at(0).id, "longer");
  EXPECT_TRUE(diagnosis.after_samples(samples(100, false)).empty());  // too early
  diagnosis.after_update(update(100, 1));
  EXPECT_TRUE(diagnosis.after_samples(samples(100, false, /*cut=*/true)).empty());
  EXPECT_EQ(diagnosis.after_samples(samples(100, false)).at(0).id, "no_end");
}

// After a resume, only the logged updates from before it are known.
TEST(Diagnosis, AnEvaluationTellsTheUpdatesToo) {
  Diagnosis diagnosis(10);
  diagnosis.after_update(update(97, 1));
  diagnosis.after_evaluation({{"loss/eval", 2}, {"counters/updates", 100}});
  EXPECT_EQ(diagnosis.after_samples(samples(100, false)).size(), 1U);
}

TEST(Diagnosis, MostlyTruncatedData) {
  Diagnosis diagnosis(10);
  data::SourceCounts few{.name = "a", .examples = 100, .truncated_prompts = 50, .truncated_responses = 10};
  EXPECT_TRUE(diagnosis.after_loading(std::span(&few, 1)).empty());
  few.truncated_responses = 51;
  EXPECT_EQ(diagnosis.after_loading(std::span(&few, 1)).size(), 1U);
}

// Simulates a run over 64 examples in batches of 8, evaluated on `held_out` pairs at the end of each epoch.
// Its accuracy in training is `first` in the first epoch, and `later` after that. Returns the warnings.
struct Memory {
  double first = 0.6, later = 1, held_out_accuracy = 0.63;
  double held_out = 256;
  std::vector<double> losses = {0.63, 0.62, 0.62};  // held out, after each epoch
};

std::string warnings_of(const Memory& run) {
  Diagnosis diagnosis(std::nullopt);
  const data::SourceCounts counts{.name = "a", .examples = 640};
  diagnosis.after_loading(std::span(&counts, 1));
  double updates = 0;
  for (std::size_t epoch = 0; epoch < run.losses.size(); ++epoch) {
    for (int i = 0; i < 80; ++i) {
      ++updates;
      diagnosis.after_update({{"rewards_train/accuracies", epoch == 0 ? run.first : run.later},
                              {"rewards_train/margins", 0.9},
                              {"counters/examples", 8 * updates},
                              {"counters/updates", updates}});
    }
    diagnosis.after_evaluation({{"loss/eval", run.losses[epoch]},
                                {"rewards_eval/accuracies", run.held_out_accuracy},
                                {"rewards_eval/margins", 0.25},
                                {"counters/eval_examples", run.held_out},
                                {"counters/examples", 8 * updates},
                                {"counters/updates", updates}});
  }
  std::string all;
  for (const RunWarning& warning : diagnosis.warnings()) all += warning.text + "\n";
  return all;
}

TEST(Diagnosis, MemorisingIsReportedOnce) {
  EXPECT_EQ(warnings_of({}),
            "the run memorizes: the reward accuracy is 1.000 in training (the last 128 examples, margin "
            "+0.900), but "
            "0.630 on 256 held-out pairs (margin +0.250), and the held-out loss no longer falls. Try fewer "
            "epochs, a "
            "lower lr, a higher loss.beta or more data; best_metric=loss/eval keeps the best checkpoint as "
            "BEST.\n");
  EXPECT_NE(warnings_of({.losses = {0.63, 0.7, 0.8}}).find("memorizes"), std::string::npos);
  EXPECT_NE(warnings_of({.held_out = 32}).find("memorizes"), std::string::npos);
}

TEST(Diagnosis, WhatIsNotMemorising) {
  const std::vector<Memory> harmless = {
      {.later = 0.72},                             // no significant gap
      {.later = 0.9, .held_out_accuracy = 0.8},    // a small gap
      {.held_out_accuracy = 0.75, .held_out = 8},  // 6 of 8: chance
      {.losses = {0.63, 0.6, 0.55}},               // the held-out loss falls
      {.first = 1, .losses = {0.63}},              // one epoch: the test data is harder
      {.later = 0.63, .held_out_accuracy = 1},     // the opposite case
  };
  for (std::size_t i = 0; i < harmless.size(); ++i)
    EXPECT_EQ(warnings_of(harmless[i]).find("memorizes"), std::string::npos) << i;
}

TEST(Diagnosis, SftHasNoPairs) {
  Diagnosis diagnosis(10);
  diagnosis.after_update(update(1000, 1));
  for (const double logp : {-100.0, -200.0})
    EXPECT_TRUE(diagnosis.after_evaluation({{"loss/eval", 2}, {"logps_eval/chosen", logp}}).empty());
}

}  // namespace
}  // namespace dpo::run
