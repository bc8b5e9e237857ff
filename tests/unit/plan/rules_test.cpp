#include "plan/rules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/output.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

TEST(BatchPerGpu, ReferenceConfigurationsHaveEightAndFour) {
  const Plan sft = plan_of(kReferenceSft);
  EXPECT_EQ(sft.examples_per_gpu, 8);
  EXPECT_TRUE(sft.passes());
  EXPECT_EQ(verdict_of(sft, "batch-per-gpu"), Verdict::ok);
  const Plan dpo = plan_of(kReferenceDpo);
  EXPECT_EQ(dpo.examples_per_gpu, 4);
  EXPECT_TRUE(dpo.passes());
  EXPECT_EQ(verdict_of(dpo, "batch-per-gpu"), Verdict::ok);
}

TEST(BatchPerGpu, WarnsBelowTwoUnderFsdpAlone) {
  const std::string line = kDpo + "batch_size=16 gradient_accumulation_steps=2 --gpus 8 ";
  expect_finding(
      line + "trainer=FSDPTrainer", "batch-per-gpu", Verdict::warning,
      "16 / (2 accumulation steps x 8 GPUs) = 1 pair per GPU per microbatch; FSDPTrainer needs 2 or more");
  expect_finding(line + "trainer=BasicTrainer", "batch-per-gpu", Verdict::ok,
                 "8 pairs per microbatch; BasicTrainer has no lower limit");
  expect_finding(line + "trainer=TensorParallelTrainer", "batch-per-gpu", Verdict::ok,
                 "TensorParallelTrainer has no lower limit");
  expect_finding(kDpo + "batch_size=16 trainer=FSDPTrainer --gpus 8", "batch-per-gpu", Verdict::ok,
                 "= 2 pairs");
  expect_finding("model=pythia28 trainer=FSDPTrainer batch_size=2 gradient_accumulation_steps=2",
                 "batch-per-gpu", Verdict::warning, "= 1 example per GPU");
}

TEST(BatchPerGpu, CountsEveryMachine) {
  EXPECT_EQ(plan_of("model=pythia28 trainer=FSDPTrainer batch_size=64 --gpus 4 --nodes 2").examples_per_gpu,
            8);
}

TEST(BatchPerGpu, CountsGroupsOfAMesh) {
  const std::string line = kDpo + "trainer=FSDPTrainer batch_size=16 gradient_accumulation_steps=2 ";
  expect_finding(line + "mesh.tensor=2 --gpus 8", "batch-per-gpu", Verdict::ok,
                 "16 / (2 accumulation steps x 4 groups of 2 GPUs) = 2 pairs per group per microbatch");
  expect_finding(line + "mesh.replica=2 --gpus 8", "batch-per-gpu", Verdict::warning,
                 "16 / (2 accumulation steps x 8 GPUs) = 1 pair");
  expect_finding(line + "mesh.shard=4 --device cpu", "batch-per-gpu", Verdict::ok, "x 4 ranks) = 2 pairs");
}

TEST(Strict, MakesWarningsErrorsAndLeavesHints) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer batch_size=8 --gpus 8 lr=1e-2 ";
  EXPECT_TRUE(plan_of(line).passes());
  const Plan strict = plan_of(line + "plan.strict=true");
  EXPECT_FALSE(strict.passes());
  EXPECT_EQ(verdict_of(strict, "batch-per-gpu"), Verdict::error);
  EXPECT_EQ(verdict_of(strict, "known-settings"), Verdict::hint);
}

TEST(BatchDivides, OffersTheNearestThatDo) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer gradient_accumulation_steps=2 --gpus 4 ";
  expect_finding(line + "batch_size=60", "batch-divides", Verdict::error,
                 "batch_size=60 does not divide evenly over 2 accumulation steps x 4 GPUs = 8; nearest that "
                 "do: 56 and 64");
  expect_finding(line + "batch_size=6", "batch-divides", Verdict::error, "nearest that do: 8");
  expect_finding(
      "model=pythia28 batch_size=5 gradient_accumulation_steps=2", "batch-divides", Verdict::error,
      "batch_size=5 does not divide evenly over 2 accumulation steps = 2; nearest that do: 4 and 6");
  // Without FSDP the GPUs do not divide the batch.
  expect_finding("model=pythia28 batch_size=5 --gpus 4", "batch-divides", Verdict::ok,
                 "divides evenly over 1 accumulation step");
}

TEST(Accumulation, IsNotLargerThanTheBatch) {
  expect_finding("model=pythia28 batch_size=4 gradient_accumulation_steps=8", "accumulation", Verdict::error,
                 "gradient_accumulation_steps=8 is larger than batch_size=4");
  expect_finding("model=pythia28 batch_size=4 gradient_accumulation_steps=4", "accumulation", Verdict::ok,
                 "");
}

TEST(TensorSplit, NamesTheDegreesThatDivideTheHeads) {
  expect_finding(
      "model=gpt2-xl trainer=TensorParallelTrainer --gpus 8", "tensor-split", Verdict::error,
      "25 attention heads (25 KV heads) and an MLP of 6400 do not divide evenly over 8 GPUs; degrees "
      "that do: 1, 5");
  expect_finding("model=pythia28 trainer=TensorParallelTrainer --gpus 8", "tensor-split", Verdict::ok,
                 "32 heads over 8 GPUs");
  EXPECT_FALSE(plan_of("model=gpt2-xl --gpus 8").find("tensor-split"));
}

TEST(TensorSplit, NoRankMayBeWithoutVocabulary) {
  Inputs in = inputs_of("model=pythia28 trainer=TensorParallelTrainer --gpus 8");
  in.shape.vocabulary = 49;  // seven of 7 rows
  EXPECT_EQ(verdict_of(make_plan(in), "tensor-split"), Verdict::error);
  in.shape.vocabulary = 50;
  EXPECT_EQ(verdict_of(make_plan(in), "tensor-split"), Verdict::ok);
}

TEST(TensorSplit, AppliesToGroupsOfAMeshAndOffersOneThatDivides) {
  const std::string line = "model=gpt2-xl trainer=FSDPTrainer batch_size=32 mesh.tensor=4 --gpus 8 ";
  expect_finding(line, "tensor-split", Verdict::error,
                 "do not divide evenly over 4 GPUs; degrees that do: 1");
  EXPECT_EQ(plan_of(line).find("tensor-split")->remedies.at(0).overrides,
            (std::vector<std::string>{"mesh.tensor=null"}));
  const Plan five = plan_of("model=gpt2-xl trainer=TensorParallelTrainer batch_size=8 --gpus 10");
  EXPECT_EQ(five.find("tensor-split")->remedies.at(0).overrides,
            (std::vector<std::string>{"mesh.shard=2", "mesh.tensor=5"}));
}

TEST(TensorLinks, BelongWithinAMachine) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer batch_size=32 --gpus 4 --nodes 2 ";
  expect_finding(line + "mesh.tensor=4", "tensor-links", Verdict::ok, "groups of 4 within a machine");
  expect_finding(line + "mesh.tensor=8", "tensor-links", Verdict::hint, "span machines of 4");
  EXPECT_FALSE(plan_of(line).find("tensor-links"));
}

TEST(OptimizerSplit, AdafactorNeedsWholeMatrices) {
  const std::string line = "model=pythia28 optimizer=Adafactor batch_size=16 --gpus 4 ";
  expect_finding(line + "trainer=FSDPTrainer mesh.shard=4", "optimizer-split", Verdict::error,
                 "optimizer=Adafactor needs whole matrices, but the mesh splits them (4 shards); use "
                 "BasicTrainer or AdamW");
  const auto remedies = plan_of(line + "trainer=FSDPTrainer mesh.shard=4").find("optimizer-split")->remedies;
  ASSERT_EQ(remedies.size(), 2u);
  EXPECT_EQ(remedies[0].overrides, std::vector<std::string>{"optimizer=AdamW"});
  EXPECT_EQ(remedies[1].overrides, (std::vector<std::string>{"trainer=BasicTrainer", "mesh.shard=null"}));
  EXPECT_FALSE(plan_of(line).find("optimizer-split"));
  EXPECT_FALSE(plan_of(line + "trainer=FSDPTrainer mesh.replica=4 mesh.shard=1").find("optimizer-split"));
}

TEST(MeshOfAPlan, IsAnyThatIsTrainedOneMachine) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer model.fsdp_policy_mp=bfloat16 batch_size=8 ";
  const Plan two = plan_of(line + "mesh.shard=2 --gpus 8");  // dpo train starts two
  EXPECT_EQ(two.mesh.ranks(), 2);
  EXPECT_EQ(two.examples_per_gpu, 4);
  EXPECT_NEAR(two.timing.update, plan_of(line + "--gpus 2").timing.update, 1e-12);
  expect_finding(line + "mesh.shard=2 --gpus 8", "idle-gpus", Verdict::hint,
                 "2 ranks on 2 of 8 GPUs: the others stay idle");
  EXPECT_FALSE(plan_of(line + "--gpus 8").find("idle-gpus"));
  EXPECT_FALSE(plan_of("model=pythia28 --gpus 8").find("idle-gpus"));
  // More ranks than GPUs share them.
  EXPECT_GT(plan_of(line + "mesh.shard=4 --gpus 2").timing.update, plan_of(line + "--gpus 4").timing.update);
}

TEST(MeshOfAPlan, OnAllGpusIsAdvisedWhereItWorks) {
  const auto advice = [](const Inputs& in) {
    std::string words;
    const Plan plan = make_plan(in);
    for (const Remedy& remedy : plan.find("idle-gpus")->remedies)
      for (const std::string& word : remedy.overrides) words += word + " ";
    return words;
  };
  const std::string line = "model=pythia28 model.fsdp_policy_mp=bfloat16 --gpus 8 trainer=";
  EXPECT_EQ(advice(inputs_of(line + "FSDPTrainer batch_size=48 mesh.shard=2")), "mesh.shard=null ");
  EXPECT_EQ(advice(inputs_of(line + "FSDPTrainer batch_size=48 mesh.replica=3 mesh.shard=1")),
            "mesh.replica=null mesh.shard=null ");
  EXPECT_EQ(advice(inputs_of(line + "TensorParallelTrainer batch_size=48 mesh.tensor=4")),
            "mesh.tensor=null ");
  EXPECT_EQ(advice(inputs_of(line + "FSDPTrainer batch_size=4 mesh.shard=2")), "");  // too few examples
  // The plan does not advise another number of ranks than a launcher has started. Each of two machines has
  // idle GPUs.
  Inputs launched = inputs_of(line + "FSDPTrainer batch_size=48");
  launched.machine.launched = Launched{.ranks = 8, .on_machine = 4};
  EXPECT_EQ(make_plan(launched).find("idle-gpus")->message,
            "4 ranks on 4 of 8 GPUs of each machine: the others stay idle; mpirun -n 16, srun "
            "--ntasks-per-node=8 and torchrun --nproc-per-node=8 start a rank for each");
  EXPECT_EQ(advice(launched), "");
}

TEST(MeshOfAPlan, OfRanksThatShareGpusIsNotCalledGpus) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer batch_size=8 mesh.shard=8 --gpus 4 ";
  expect_finding(line, "batch-divides", Verdict::ok, "1 accumulation step x 8 ranks");
  expect_finding(line + "model=llama7b --device rtx4090", "memory", Verdict::error,
                 " available (2 share each rtx4090)");
  EXPECT_NE(memory_to_text(plan_of(line)).find("Memory per process, GiB"), std::string::npos);
  EXPECT_NE(memory_to_text(plan_of(line + "mesh.shard=4")).find("Memory per GPU, GiB"), std::string::npos);
}

TEST(MeshOfAPlan, ContradictionsAreRefused) {
  EXPECT_THROW(plan_of("model=pythia28 trainer=FSDPTrainer mesh.shard=3 --gpus 8 --nodes 2"), UserError);
  EXPECT_THROW(plan_of("model=pythia28 trainer=FSDPTrainer mesh.tensor=3 --gpus 8"), UserError);
  EXPECT_THROW(plan_of("model=pythia28 mesh.shard=2 --gpus 2"), UserError);
}

TEST(TokensPerGpu, ReportsTheThresholdOfTheLink) {
  const std::string line =
      "model=pythia28 trainer=FSDPTrainer fsdp_reshard=pass model.fsdp_policy_mp=bfloat16 ";
  expect_finding(line + "batch_size=512 --gpus 8 --device h100", "tokens-per-gpu", Verdict::ok,
                 "tokens would hide the communication and");
  expect_finding(line + "batch_size=64 --gpus 8 --device h100", "tokens-per-gpu", Verdict::hint,
                 "part of the time");
  expect_finding(line + "batch_size=16 --gpus 8 --device l40s", "tokens-per-gpu", Verdict::warning,
                 "one GPU alone would be faster");
  EXPECT_FALSE(plan_of(line + "batch_size=16 --gpus 1").find("tokens-per-gpu"));
  EXPECT_FALSE(plan_of("model=pythia28 --gpus 8").find("tokens-per-gpu"));
}

TEST(NearestMultiples, SurroundAValue) {
  EXPECT_EQ(nearest_multiples(60, 8).below, 56);
  EXPECT_EQ(nearest_multiples(60, 8).above, 64);
  EXPECT_EQ(nearest_multiples(64, 8).above, 64);
  EXPECT_EQ(nearest_multiples(3, 8).below, 0);
}

}  // namespace
}  // namespace dpo::plan
