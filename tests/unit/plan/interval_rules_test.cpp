#include <gtest/gtest.h>

#include "test_plans.h"

namespace dpo::plan {
namespace {

TEST(EvalEvery, IsRoundedDownToAMultipleOfTheBatch) {
  const std::string line = "model=pythia28 eval_every=20_000 ";
  expect_finding(line + "batch_size=64", "eval-every", Verdict::warning,
                 "eval_every=20000 is not a multiple of batch_size=64: rounded down to 19968");
  EXPECT_EQ(plan_of(line + "batch_size=64").resolved.eval_every, 19'968);
  EXPECT_TRUE(plan_of(kReferenceSft).passes());  // 64 and 20,000 too: only a warning
  expect_finding(line + "batch_size=32", "eval-every", Verdict::ok, "every 20,000 examples");
  expect_finding("model=pythia28 batch_size=64 eval_every=63", "eval-every", Verdict::error,
                 "eval_every=63 is less than batch_size=64: it rounds down to 0");
}

TEST(EvalEvery, NullSwitchesItOff) {
  const std::string line = "model=pythia28 batch_size=32 eval_every=null ";
  expect_finding(line, "eval-every", Verdict::ok, "no evaluation");
  const Plan plan = plan_of(line + "eval_batch_size=3 trainer=FSDPTrainer --gpus 2");
  EXPECT_FALSE(plan.resolved.eval_every);
  EXPECT_EQ(plan.find("eval-batch"), nullptr);
  EXPECT_EQ(plan.timing.evaluations, 0);
  EXPECT_EQ(plan.timing.evaluation_hours, 0);
  EXPECT_EQ(plan.disk.checkpoints, 1);
  expect_finding(line, "save-every", Verdict::hint, "the only checkpoint is written at the end");
  EXPECT_EQ(plan_of(line + "debug=true").find("save-every"), nullptr);
  expect_finding("model=gpt2-xl loss=kto loss.beta=0.1 batch_size=2 eval_batch_size=1 eval_every=null",
                 "mismatched", Verdict::ok, "");
}

TEST(SaveEvery, IsThatOfEvaluationsUnlessItIsSet) {
  const Plan unset = plan_of("model=pythia28 batch_size=64");
  EXPECT_EQ(unset.resolved.save_every, 19'968);
  EXPECT_EQ(unset.find("save-every"), nullptr);
  const std::string line = "model=pythia28 batch_size=64 save_every=";
  EXPECT_EQ(plan_of(line + "6400").resolved.save_every, 6400);
  EXPECT_EQ(plan_of(line + "6400").resolved.eval_every, 19'968);
  EXPECT_EQ(plan_of(line + "6400 eval_every=null").resolved.save_every, 6400);
  expect_finding(line + "6400", "save-every", Verdict::ok, "every 6,400 examples");
  expect_finding(line + "6500", "save-every", Verdict::warning,
                 "save_every=6500 is not a multiple of batch_size=64: rounded down to 6464");
  expect_finding(line + "63", "save-every", Verdict::error,
                 "save_every=63 is less than batch_size=64: it rounds down to 0, and "
                 "there would be no checkpoint before the end");
}

TEST(BestMetric, NeedsAnEvaluationOfEveryCheckpoint) {
  const std::string line = "model=pythia28 batch_size=32 eval_every=3200 best_metric=loss/eval ";
  expect_finding(line, "best-metric", Verdict::ok, "keeps the best checkpoint by loss/eval");
  expect_finding(line + "save_every=6400", "best-metric", Verdict::ok, "");
  const std::string uneven = line + "save_every=4800 ";
  expect_finding(uneven, "best-metric", Verdict::error,
                 "save_every=4800 must be a multiple of eval_every=3200");
  const Plan plan = plan_of(uneven);
  EXPECT_EQ(plan.find("best-metric")->remedies.at(0).overrides,
            (std::vector<std::string>{"save_every=6400"}));
  expect_finding(line + "save_every=1600", "best-metric", Verdict::error, "");
  expect_finding(line + "eval_every=null", "best-metric", Verdict::error,
                 "best_metric=loss/eval is an evaluation metric, but eval_every=null turns evaluation off");
  EXPECT_EQ(plan_of("model=pythia28 save_every=1600").find("best-metric"), nullptr);
  Inputs labelled = inputs_of("model=gpt2-xl loss=kto loss.beta=0.1 best_metric=rewards_eval/margins");
  EXPECT_EQ(verdict_of(make_plan(labelled), "best-metric"), Verdict::ok);
  labelled.lengths.test_pairs = 0;
  labelled.lengths.test_labels = labelled.lengths.train_labels = 2000;
  EXPECT_EQ(verdict_of(make_plan(labelled), "best-metric"), Verdict::error);
}

TEST(EvalBatch, WarnsWhenGpusWait) {
  expect_finding("model=pythia28 trainer=FSDPTrainer batch_size=8 eval_batch_size=6 --gpus 4", "eval-batch",
                 Verdict::warning, "eval_batch_size=6 does not divide evenly over 4 GPUs");
  expect_finding("model=pythia28 eval_batch_size=6 --gpus 4", "eval-batch", Verdict::ok, "");
}

}  // namespace
}  // namespace dpo::plan
