// Checks the expected work of the slowest rank, with the lengths of configs/lengths/hh.yaml.
#include "plan/balance.h"

#include <gtest/gtest.h>

#include "plan/output.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

constexpr double kBar = 1.08;

double slowest_with(const std::string& more) {
  const Plan plan = plan_of(kDpo + "datasets=[hh] trainer=FSDPTrainer --device h100 " + more);
  EXPECT_GE(plan.timing.slowest_rank, 1);
  return plan.timing.slowest_rank;
}

TEST(Balance, OfManyPairsIsNearOne) {
  EXPECT_LE(slowest_with("batch_size=64 --gpus 8"), 1.01);
  EXPECT_LE(slowest_with("batch_size=128 --gpus 8 --nodes 4"), 1.02);
  EXPECT_LE(slowest_with("batch_size=256 --gpus 8 --nodes 8"), 1.02);
  EXPECT_LE(slowest_with("batch_size=96 --gpus 8 --nodes 4"), kBar);  // 3 pairs per rank
  EXPECT_LE(slowest_with("batch_size=192 --gpus 8 --nodes 8"), kBar);
  EXPECT_EQ(slowest_with("batch_size=2048 --gpus 8"), 1);  // so many that nothing is sampled
}

// With 2 pairs per rank, the longest prompt with one of its responses is more than a rank's share.
TEST(Balance, OfTwoPairsIsLimitedByTheLongestSequence) {
  EXPECT_LE(slowest_with("batch_size=64 --gpus 8 --nodes 4"), 1.2);
  EXPECT_LE(slowest_with("batch_size=128 --gpus 8 --nodes 8"), 1.22);
  // With shorter prompts it is not.
  EXPECT_LE(slowest_with("batch_size=64 max_prompt_length=128 max_length=256 --gpus 8 --nodes 4"), kBar);
}

TEST(Balance, OfOneRankOrEqualLengthsIsOne) {
  EXPECT_EQ(slowest_with("batch_size=64 --gpus 1"), 1);
  EXPECT_EQ(slowest_with("batch_size=64 trainer=TensorParallelTrainer --gpus 8"), 1);
  Inputs in = inputs_of(kDpo + "trainer=FSDPTrainer batch_size=64 --gpus 8");
  in.lengths = fixed_lengths();
  EXPECT_EQ(make_plan(in).timing.slowest_rank, 1);
}

// With fewer pairs than ranks, a pair is divided: its two ranks have 3/4 of it.
TEST(Balance, OfFewPairs) {
  Inputs in = inputs_of(kDpo + "trainer=FSDPTrainer batch_size=4 --gpus 8");
  in.lengths = fixed_lengths();
  EXPECT_NEAR(make_plan(in).timing.slowest_rank, 1.5, 0.03);
  in.run.batch_size = 8;
  const Timing balanced = make_plan(in).timing;
  EXPECT_EQ(balanced.slowest_rank, 1);
}

// The slowest rank's microbatch takes longer. The operations that are counted stay those of the batch.
TEST(Balance, IsPartOfTheTime) {
  Inputs in = inputs_of(kDpo +
                        "trainer=FSDPTrainer mesh.replica=8 mesh.shard=1 model.fsdp_policy_mp=bfloat16 "
                        "batch_size=12 --gpus 8");
  in.lengths = fixed_lengths();
  const Timing uneven = make_plan(in).timing;
  in.run.batch_size = 8;
  const Timing even = make_plan(in).timing;
  EXPECT_NEAR(uneven.slowest_rank, 1.16, 0.02);  // with whole pairs, some ranks would have 4/3 of the mean
  EXPECT_NEAR(uneven.least_matmuls / even.least_matmuls, 1.5, 0.001);
  constexpr double kHost = 2e-3;  // seconds
  EXPECT_NEAR((uneven.microbatch.elapsed - kHost) / uneven.microbatch.compute, uneven.slowest_rank, 0.02);
  EXPECT_NEAR(even.microbatch.elapsed - kHost, even.microbatch.compute, 1e-9);
}

TEST(Balance, IsShown) {
  const Inputs in = inputs_of(kDpo + "datasets=[hh] trainer=FSDPTrainer batch_size=64 --gpus 8 --nodes 4");
  const Plan plan = make_plan(in);
  EXPECT_NE(to_json(plan, in, std::nullopt).find("\"slowest_rank\": 1."), std::string::npos);
}

TEST(SampledExamples, HaveTheMeanOfTheLengths) {
  const Inputs in = inputs_of(kDpo + "datasets=[hh]");
  std::mt19937_64 random(1);
  double tokens = 0;
  constexpr int kCount = 20'000;
  for (int i = 0; i < kCount; ++i) {
    const SampledExample example = sample_example(in.lengths, 512, 256, {2, 2, 2}, random);
    ASSERT_EQ(example.responses.size(), 2u);
    tokens += to_double(example.prompt + example.responses[0] + example.responses[1]);
    EXPECT_LE(example.prompt + std::max(example.responses[0], example.responses[1]), 512);
  }
  EXPECT_NEAR(tokens / kCount, example_tokens(in.lengths, 512, 256, {2, 2, 2}).mean, 3);
}

}  // namespace
}  // namespace dpo::plan
