#include "run/run_log.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dpo::run {
namespace {

TEST(Summary, SaysWhatThisProcessDid) {
  EXPECT_EQ(summary(400, 1600, {400, 190, 5312.4}),
            "done: 400 updates, 1,600 examples in 3 min, 5,312 tokens/s in training");
  EXPECT_EQ(
      summary(400, 1600, {1, 0.2, 10}),
      "done: 400 updates, 1,600 examples; since it was resumed 1 update in 1 s, 10 tokens/s in training");
  EXPECT_EQ(summary(400, 1600, {0, 0, NAN}),
            "done: 400 updates, 1,600 examples; all of them before it was resumed");
}

TEST(Summary, SaysWhatWasLearned) {
  const Metrics first = {{"loss/eval", 0.69314}, {"rewards_eval/accuracies", 0}, {"rewards_eval/margins", 0}};
  const Metrics last = {
      {"loss/eval", 0.41267}, {"rewards_eval/accuracies", 0.8125}, {"rewards_eval/margins", 1.2341}};
  EXPECT_EQ(learned(first, last),
            "evaluation: loss 0.6931 -> 0.4127, accuracy 0.000 -> 0.812, margin +0.000 -> +1.234");
  EXPECT_EQ(learned(last, last), "evaluation: loss 0.4127, accuracy 0.812, margin +1.234");
  EXPECT_EQ(learned({{"loss/eval", 3.25}}, {{"loss/eval", 2.5}}), "evaluation: loss 3.2500 -> 2.5000");
  EXPECT_EQ(learned({{"loss/eval", NAN}}, {{"loss/eval", 2.5}}), "evaluation: loss 2.5000");
}

}  // namespace
}  // namespace dpo::run
