#include "report/accuracy.h"

#include <cmath>

#include <gtest/gtest.h>

namespace dpo::report {
namespace {

TEST(Accuracy, IsShownWithItsExamples) {
  EXPECT_EQ(accuracy_text(0.8125, 1.5), "0.812");
  EXPECT_EQ(accuracy_text(0.8125, 1.5, 1600), "0.812 (n=1,600)");
}

// An accuracy of 0 means only ties if the mean margin is 0 too. Otherwise, some margins are negative.
TEST(Accuracy, OfTiesIsAHalf) {
  EXPECT_EQ(accuracy_text(0, 0), "0.5 (ties)");
  EXPECT_EQ(accuracy_text(0, 0, 16), "0.5 (ties, n=16)");
  EXPECT_EQ(accuracy_text(0, -0.25, 16), "0.000 (n=16)");
  EXPECT_EQ(accuracy_text(0.5, 0, 16), "0.500 (n=16)");
  EXPECT_EQ(accuracy_of(0, 0), 0.5);
  EXPECT_EQ(accuracy_of(0, -0.25), 0);
  EXPECT_TRUE(std::isnan(accuracy_of(NAN, 0)));
}

TEST(Accuracy, OfALineOfMetrics) {
  NamedNumbers metrics = {{"rewards_eval/margins", 0},
                          {"rewards_eval/accuracies", 0},
                          {"rewards_train/accuracies", 0},
                          {"rewards_train/margins", -1}};
  count_ties_as_half(metrics);
  EXPECT_EQ(metrics[1].second, 0.5);
  EXPECT_EQ(metrics[2].second, 0);
  NamedNumbers alone = {{"rewards_eval/accuracies", 0}};
  count_ties_as_half(alone);
  EXPECT_EQ(alone[0].second, 0);
}

}  // namespace
}  // namespace dpo::report
