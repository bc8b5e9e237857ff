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
            "Yes: after 1,600 examples the reward accuracy on 400 held-out pairs is 0.750 (chance is 0.500, "
            "give or "
            "take 0.050), the mean margin +1.250, and the loss fell from 0.6931 to 0.5000.");
  EXPECT_EQ(what_was_learned(log_of(start + evaluation(1600, 0.69, rewards(0.54, 0.1)))).answer,
            Answer::unclear);
  const Learned no = what_was_learned(log_of(start + evaluation(1600, 0.8, rewards(0.25, -1))));
  EXPECT_EQ(no.answer, Answer::no);
  EXPECT_TRUE(no.sentence.starts_with("No, the opposite: ")) << no.sentence;
  EXPECT_EQ(what_was_learned(log_of(start)).answer, Answer::unclear);
}

TEST(Learned, ByAccuracyAgainstTheModelBefore) {
  const Learned learned = what_was_learned(
      log_of(evaluation(0, 1, rewards(0.625, 0.5)) + evaluation(1600, 0.5, rewards(0.65, 1))));
  EXPECT_EQ(learned.answer, Answer::unclear);
  EXPECT_NE(learned.sentence.find("before training 0.625"), std::string::npos) << learned.sentence;
}

TEST(Learned, ByLossWithoutPairs) {
  const Learned learned = what_was_learned(log_of(evaluation(0, 2.5) + evaluation(640, 2)));
  EXPECT_EQ(learned.answer, Answer::yes);
  EXPECT_EQ(
      learned.sentence,
      "Yes: on 400 held-out examples, the loss fell from 2.5000 to 2.0000 in 640 examples of training.");
  EXPECT_EQ(what_was_learned(log_of(evaluation(0, 2) + evaluation(640, 2.5))).answer, Answer::no);
  EXPECT_EQ(what_was_learned(log_of(evaluation(640, 2))).answer, Answer::unclear);
}

TEST(Learned, IsNotKnownWithoutEvaluation) {
  std::string updates;
  for (int i = 1; i <= 20; ++i)
    updates += "{\"loss/train\": " + std::to_string(3.0 - 0.1 * i) +
               ", \"counters/examples\": " + std::to_string(i) + "}\n";
  const Learned learned = what_was_learned(log_of(updates));
  EXPECT_EQ(learned.answer, Answer::unclear);
  EXPECT_NE(learned.sentence.find("fell from 2.8500"), std::string::npos) << learned.sentence;
  EXPECT_EQ(what_was_learned(log_of("")).sentence, "Not known yet: nothing was evaluated.");
}

}  // namespace
}  // namespace dpo::report
