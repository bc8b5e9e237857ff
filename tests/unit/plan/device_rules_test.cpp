#include <gtest/gtest.h>

#include "test_plans.h"

namespace dpo::plan {
namespace {

TEST(HostMemory, HoldsTheCopyOfACheckpoint) {
  // 2.78B parameters, float32 weights and one array: 20.7 GiB.
  Inputs in = inputs_of("model=pythia28 --device h200");
  for (const auto& [gib, verdict] :
       {std::pair(20.0, Verdict::error), std::pair(25.0, Verdict::warning), std::pair(64.0, Verdict::ok)}) {
    in.host.memory = gib * (1 << 30);
    const Plan plan = make_plan(in);
    ASSERT_NE(plan.find("host-memory"), nullptr);
    EXPECT_EQ(plan.find("host-memory")->verdict, verdict) << gib;
  }
  for (const auto& [replicas, verdict] : {std::pair("1", Verdict::ok), std::pair("2", Verdict::error)}) {
    in = inputs_of(
        std::string("model=pythia28 trainer=FSDPTrainer --device h200 --gpus 2 --nodes 2 mesh.replica=") +
        replicas);
    in.host.memory = 20.0 * (1 << 30);
    EXPECT_EQ(make_plan(in).find("host-memory")->verdict, verdict) << replicas;
  }
}

TEST(Spread, BasicTrainerIsOneProcess) {
  expect_finding("model=pythia28 --gpus 2", "spread", Verdict::hint, "take turns");
  expect_finding("model=pythia28 --gpus 2 --nodes 2", "spread", Verdict::error, "it cannot use 2 machines");
  expect_finding("model=pythia28 --gpus 1 --nodes 2", "spread", Verdict::error, "it cannot use 2 machines");
  EXPECT_FALSE(plan_of("model=pythia28 --gpus 1").find("spread"));
  EXPECT_EQ(plan_of("model=pythia28 --gpus 2 --nodes 2").memory.total(),
            plan_of("model=pythia28 --gpus 2").memory.total());
}

TEST(GradientsRule, SaysWhetherTheyAreFreedEarly) {
  const std::string line = "model=pythia28 max_grad_norm=null gradient_accumulation_steps=";
  expect_finding(line + "1", "gradients", Verdict::ok, "during the backward pass");
  expect_finding(line + "4", "gradients", Verdict::hint, "all 4 microbatches of an update add to them");
  expect_finding(line + "1 trainer=FSDPTrainer --gpus 2", "gradients", Verdict::hint, "all 2 ranks");
  EXPECT_FALSE(plan_of(line + "4 adapter=lora").find("gradients"));
  EXPECT_FALSE(plan_of("model=pythia28").find("gradients"));
}

TEST(DiskRule, SaysWhyAFolderCannotBeCreated) {
  Inputs in = inputs_of("model=pythia28");
  in.host.run_folder = "/proc/x";
  in.host.free_disk = 0;
  in.host.obstacle = "/proc is not on a disk";
  const Plan plan = make_plan(in);
  EXPECT_EQ(verdict_of(plan, "disk"), Verdict::error);
  EXPECT_TRUE(plan.find("disk")->message.starts_with(
      "cannot create the run folder /proc/x: /proc is not on a disk; choose another with local_run_dir=DIR"))
      << plan.find("disk")->message;
}

TEST(DiskRule, CountsCheckpointsToCome) {
  Inputs in = inputs_of("model=pythia28 batch_size=32");
  const Plan plan = make_plan(in);
  // Float32 weights and one value of RMSprop take 8 * 2,775,208,960 bytes, at 20,000 ... 160,000 examples and
  // at the end.
  EXPECT_EQ(plan.disk.checkpoint, 8 * 2'775'208'960.0);
  EXPECT_EQ(plan.disk.checkpoints, 9);
  EXPECT_EQ(verdict_of(plan, "disk"), Verdict::ok);  // a remote disk is not checked
  in.host.free_disk = plan.disk.total() - 1;
  const Plan full = make_plan(in);
  EXPECT_EQ(verdict_of(full, "disk"), Verdict::error);
  EXPECT_TRUE(full.find("disk")->remedies.at(0).overrides.at(0).starts_with("save_every="));
  ASSERT_EQ(full.find("disk")->remedies.size(), 2u);  // save less often, or keep only the newest
  for (const Remedy& remedy : full.find("disk")->remedies) {
    Inputs other = in;
    other.run = config::with_overrides(in.run, remedy.overrides);
    EXPECT_EQ(verdict_of(make_plan(other), "disk"), Verdict::ok) << remedy.overrides[0];
  }
  in.host.free_disk = 0;
  in.run.debug = true;
  EXPECT_EQ(verdict_of(make_plan(in), "disk"), Verdict::ok);
}

TEST(DiskRule, CountsWhatIsKeptBesidesANewCheckpoint) {
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 keep_last=2").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 keep_last=2 best_metric=loss/eval").disk.checkpoints, 4);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 keep_last=50").disk.checkpoints, 9);
}

TEST(DiskRule, CountsTheMergedModel) {
  Inputs in = inputs_of("model=pythia28 adapter=lora model.policy_dtype=bfloat16 adapter.merge_on_save=true");
  const double merged = 2 * 2'775'208'960.0;
  EXPECT_EQ(make_plan(in).disk.merged, merged);
  in.host.free_disk = merged;
  const Plan full = make_plan(in);
  EXPECT_EQ(verdict_of(full, "disk"), Verdict::error);
  EXPECT_NE(full.find("disk")->message.find("a merged model of 5.2 GiB"), std::string::npos)
      << full.find("disk")->message;
  ASSERT_EQ(full.find("disk")->remedies.size(), 1u);
  in.run = config::with_overrides(in.run, full.find("disk")->remedies[0].overrides);
  EXPECT_EQ(verdict_of(make_plan(in), "disk"), Verdict::ok);
}

TEST(DiskRule, FollowsSaveEvery) {
  // The last of 160,800 examples are saved once, even if that is a multiple.
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=3200").disk.checkpoints, 51);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=80384").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=80400").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=48 save_every=80400").disk.checkpoints, 2);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=3200 keep_last=2").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 eval_every=null save_every=40000").disk.checkpoints, 5);
}

TEST(MemoryRule, SaysWhatIsNeededAndAvailable) {
  expect_finding("model=llama7b --device rtx4090", "memory", Verdict::error,
                 "GiB on each rtx4090, 23.3 GiB available");
  expect_finding("model=gpt2-large --device rtx4090", "memory", Verdict::ok, "of 23.3 GiB");
}

}  // namespace
}  // namespace dpo::plan
