#include "report/evaluations.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace dpo::report {
namespace {

namespace fs = std::filesystem;

MetricLog log_of(const std::string& lines) {
  const fs::path file = fs::path(testing::TempDir()) / "dpo_report_evaluations.jsonl";
  std::ofstream(file) << lines;
  const MetricLog log(file);
  fs::remove(file);
  return log;
}

std::string evaluation(int examples, double loss, const std::string& rewards = "") {
  return "{\"loss/eval\": " + std::to_string(loss) + rewards +
         ", \"counters/eval_examples\": 400, \"counters/examples\": " + std::to_string(examples) + "}\n";
}

std::string rewards(double accuracy, double margin) {
  return ", \"rewards_eval/accuracies\": " + std::to_string(accuracy) +
         ", \"rewards_eval/margins\": " + std::to_string(margin);
}

TEST(Evaluations, AreThoseUpToACheckpoint) {
  const MetricLog log =
      log_of(evaluation(0, 0.5) + evaluation(64, 0.25, rewards(0.75, 1)) + evaluation(128, 0.125));
  EXPECT_EQ(evaluations_of(log).size(), 3u);
  const std::vector<Evaluation> some = evaluations_of(log, 64);
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[1].accuracy, 0.75);
  EXPECT_FALSE(some[0].margin.has_value());
  EXPECT_EQ(evaluated_examples(log), 400);
}

TEST(Learned, ByAccuracyAgainstChance) {
  const std::string start = evaluation(0, 0.6931, rewards(0, 0));
  const Learned yes = what_was_learned(log_of(start + evaluation(1600, 0.5, rewards(0.75, 1.25))));
  EXPECT_EQ(yes.answer, Answer::yes);
  EXPECT_EQ(yes.sentence,
            "Yes: after 1,600 examples the reward accuracy on 400 held-out examples is 0.750 (chance is "
            "0.500, give or take 0.050), the mean margin +1.250, and the loss fell from 0.6931 to 0.5000.");
  EXPECT_EQ(what_was_learned(log_of(start + evaluation(1600, 0.69, rewards(0.54, 0.1)))).answer,
            Answer::unclear);
  const Learned no = what_was_learned(log_of(start + evaluation(1600, 0.8, rewards(0.25, -1))));
  EXPECT_EQ(no.answer, Answer::no);
  EXPECT_TRUE(no.sentence.starts_with("No, the opposite: ")) << no.sentence;
  EXPECT_EQ(what_was_learned(log_of(start)).answer, Answer::unclear);
  // With a reference, chance is the baseline without an evaluation before training. 4 of the examples are
  // pairs.
  const MetricLog late = log_of(evaluation(1600, 0.5, rewards(0.75, 1) + ", \"kl_eval/per_token\": 0.1"));
  EXPECT_EQ(what_was_learned(late).answer, Answer::yes);
  EXPECT_EQ(what_was_learned(late, 4).answer, Answer::unclear);
}

// The file has 0 for ties, which is neither a result nor the opposite of learning.
TEST(Learned, TiesAreNoResult) {
  const MetricLog log =
      log_of(evaluation(0, 0.6931, rewards(0, 0)) + evaluation(1600, 0.6931, rewards(0, 0)));
  EXPECT_EQ(what_was_learned(log).sentence,
            "Not measurably: after 1,600 examples the reward accuracy on 400 held-out examples is 0.5 (ties) "
            "(chance is 0.500, give or take 0.050), the mean margin +0.000, and the loss stayed at 0.6931.");
  EXPECT_EQ(log.series("rewards_eval/accuracies").last().y, 0.5);
  EXPECT_EQ(accuracy_text(log.evaluations().back()), "0.5 (ties, n=400)");
  EXPECT_EQ(accuracy_text(log_of(evaluation(0, 2)).evaluations().back()), "");
}

TEST(Learned, FewExamplesMeasureLittle) {
  const auto learned = [](int examples, double accuracy) {
    return what_was_learned(
        log_of(evaluation(0, 0.6931, rewards(0, 0)) + evaluation(64, 0.6, rewards(accuracy, 0.1))), examples);
  };
  EXPECT_EQ(learned(5, 0.8).in_short(), "Not measurably");
  EXPECT_EQ(learned(400, 0.8).in_short(), "Yes");
}

TEST(Learned, SaysIfTheTrainingExamplesAreFittedMuchBetter) {
  std::string lines = evaluation(0, 0.6931, rewards(0, 0));
  for (int i = 1; i <= 100; ++i)
    lines += "{\"rewards_train/accuracies\": 1, \"rewards_train/margins\": 0.9, \"counters/updates\": " +
             std::to_string(i) + ", \"counters/examples\": " + std::to_string(16 * i) + "}\n";
  EXPECT_TRUE(
      what_was_learned(log_of(lines + evaluation(1600, 0.68, rewards(0.63, 0.25))))
          .sentence.ends_with(
              "; in training the accuracy on the last 160 examples is 1.000 and the mean margin +0.900."));
  EXPECT_FALSE(what_was_learned(log_of(lines + evaluation(1600, 0.3, rewards(0.95, 0.8))))
                   .sentence.ends_with("+0.900."));
}

TEST(Learned, ByAccuracyAgainstTheModelBefore) {
  const Learned learned = what_was_learned(
      log_of(evaluation(0, 1, rewards(0.625, 0.5)) + evaluation(1600, 0.5, rewards(0.65, 1))));
  EXPECT_EQ(learned.answer, Answer::unclear);
  EXPECT_NE(learned.sentence.find("before training 0.625"), std::string::npos) << learned.sentence;
}

// Rewards without a reference are log-probabilities, so 0.5 is not a meaningful baseline.
TEST(Learned, ByAccuracyAgainstTheFirstEvaluation) {
  const std::string first = evaluation(160, 1, rewards(0.625, 0.5));
  EXPECT_EQ(
      what_was_learned(log_of(first)).sentence,
      "Not known yet: the reward accuracy on 400 held-out examples is 0.625 after 160 examples, but there "
      "is no earlier evaluation, and without a reference model 0.5 is not a meaningful baseline.");
  const Learned same = what_was_learned(log_of(first + evaluation(320, 1.5, rewards(0.65, 1))));
  EXPECT_EQ(same.answer, Answer::unclear);
  EXPECT_NE(same.sentence.find("is 0.650 (after 160 examples 0.625, give or take 0.050)"), std::string::npos)
      << same.sentence;
  EXPECT_EQ(what_was_learned(log_of(first + evaluation(320, 0.5, rewards(0.75, 1)))).answer, Answer::yes);
}

TEST(Learned, ByLossWithoutPairs) {
  const Learned learned = what_was_learned(log_of(evaluation(0, 2.5) + evaluation(640, 2)));
  EXPECT_EQ(learned.answer, Answer::yes);
  EXPECT_EQ(
      learned.sentence,
      "Yes: on 400 held-out examples, the loss fell from 2.5000 to 2.0000 in 640 examples of training.");
  EXPECT_EQ(what_was_learned(log_of(evaluation(0, 2) + evaluation(640, 2.5))).answer, Answer::no);
  EXPECT_EQ(what_was_learned(log_of(evaluation(640, 2))).answer, Answer::unclear);
  for (const double loss : {1.9875, 2.0, 2.0125})  // within 1 %
    EXPECT_EQ(what_was_learned(log_of(evaluation(0, 2) + evaluation(640, loss))).answer, Answer::unclear)
        << loss;
  EXPECT_EQ(
      what_was_learned(log_of(evaluation(0, 2) + evaluation(640, 2))).sentence,
      "Not measurably: on 400 held-out examples, the loss stayed at 2.0000 in 640 examples of training.");
}

TEST(Learned, IsNotKnownWithoutEvaluation) {
  std::string updates;
  for (int i = 1; i <= 20; ++i)
    updates += "{\"loss/train\": " + std::to_string(3.0 - 0.1 * i) +
               ", \"counters/examples\": " + std::to_string(i) + "}\n";
  const Learned learned = what_was_learned(log_of(updates));
  EXPECT_EQ(learned.answer, Answer::unclear);
  EXPECT_EQ(learned.sentence,
            "Not known: nothing was evaluated. In training the loss fell from 2.8500 to 1.0500 (means of the "
            "first and the last tenth).");
  EXPECT_EQ(what_was_learned(log_of("")).sentence, "Not known: nothing was evaluated.");
}

}  // namespace
}  // namespace dpo::report
