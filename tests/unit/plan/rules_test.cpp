#include "plan/rules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "case.h"

namespace dpo::plan {
namespace {

const std::string kDpo = "model=pythia28 loss=dpo loss.beta=0.1 model.archive=sft ";

void expect_finding(const std::string& line, const std::string& id, Verdict verdict,
                    const std::string& message) {
  const Plan plan = plan_of(line);
  const Finding* finding = plan.find(id);
  ASSERT_TRUE(finding) << id << " has no say in: " << line;
  EXPECT_EQ(finding->verdict, verdict) << line << "\n" << finding->message;
  EXPECT_NE(finding->message.find(message), std::string::npos) << finding->message;
}

TEST(BatchPerGpu, ReferenceConfigurationsHaveEightAndFour) {
  const Plan sft = plan_of(kReferenceSft);
  EXPECT_EQ(sft.examples_per_gpu, 8);
  EXPECT_TRUE(sft.good());
  EXPECT_EQ(verdict_of(sft, "batch-per-gpu"), Verdict::ok);
  const Plan dpo = plan_of(kReferenceDpo);
  EXPECT_EQ(dpo.examples_per_gpu, 4);
  EXPECT_TRUE(dpo.good());
  EXPECT_EQ(verdict_of(dpo, "batch-per-gpu"), Verdict::ok);
}

TEST(BatchPerGpu, WarnsBelowTwoUnderFsdpAlone) {
  const std::string line = kDpo + "batch_size=16 gradient_accumulation_steps=2 --gpus 8 ";
  expect_finding(
      line + "trainer=FSDPTrainer", "batch-per-gpu", Verdict::warning,
      "16 / (2 accumulation steps x 8 GPUs) = 1 pair per GPU and microbatch; FSDPTrainer wants 2 or more");
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

TEST(Strict, MakesWarningsErrorsAndLeavesHints) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer batch_size=8 --gpus 8 lr=1 ";
  EXPECT_TRUE(plan_of(line).good());
  const Plan strict = plan_of(line + "plan.strict=true");
  EXPECT_FALSE(strict.good());
  EXPECT_EQ(verdict_of(strict, "batch-per-gpu"), Verdict::error);
  EXPECT_EQ(verdict_of(strict, "known-settings"), Verdict::hint);
}

TEST(Mismatched, NeedsAnotherExampleInEveryBatch) {
  const std::string kto = "model=gpt2-xl loss=kto loss.beta=0.1 eval_every=8 ";
  EXPECT_EQ(verdict_of(plan_of(kto + "batch_size=2 eval_batch_size=2"), "mismatched"), Verdict::ok);
  EXPECT_EQ(plan_of("model=gpt2-xl loss=dpo loss.beta=0.1 batch_size=1").find("mismatched"), nullptr);
  for (const std::string key : {"batch_size", "eval_batch_size"}) {
    const Plan plan = plan_of(kto + key + "=1");
    const Finding& finding = *plan.find("mismatched");
    EXPECT_EQ(finding.verdict, Verdict::error);
    EXPECT_NE(finding.message.find("with " + key + "=1 there is none"), std::string::npos);
    EXPECT_EQ(finding.remedies.at(0).overrides, (std::vector<std::string>{key + "=2"}));
  }
}

TEST(BatchDivides, OffersTheNearestThatDo) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer gradient_accumulation_steps=2 --gpus 4 ";
  expect_finding(
      line + "batch_size=60", "batch-divides", Verdict::error,
      "batch_size=60 does not divide over 2 accumulation steps x 4 GPUs = 8; the nearest that do: 56 and 64");
  expect_finding(line + "batch_size=6", "batch-divides", Verdict::error, "the nearest that do: 8");
  expect_finding("model=pythia28 batch_size=5 gradient_accumulation_steps=2", "batch-divides", Verdict::error,
                 "batch_size=5 does not divide over 2 accumulation steps = 2; the nearest that do: 4 and 6");
  // Without FSDP the GPUs do not divide the batch.
  expect_finding("model=pythia28 batch_size=5 --gpus 4", "batch-divides", Verdict::ok,
                 "divides over 1 accumulation step");
}

TEST(Accumulation, IsNotLargerThanTheBatch) {
  expect_finding("model=pythia28 batch_size=4 gradient_accumulation_steps=8", "accumulation", Verdict::error,
                 "gradient_accumulation_steps=8 is larger than batch_size=4");
  expect_finding("model=pythia28 batch_size=4 gradient_accumulation_steps=4", "accumulation", Verdict::ok,
                 "");
}

TEST(EvalEvery, IsRoundedDownToAMultipleOfTheBatch) {
  const std::string line = "model=pythia28 eval_every=20_000 ";
  expect_finding(line + "batch_size=64", "eval-every", Verdict::warning,
                 "eval_every=20000 is not a multiple of batch_size=64: rounded down to 19968");
  EXPECT_EQ(plan_of(line + "batch_size=64").resolved.eval_every, 19'968);
  EXPECT_TRUE(plan_of(kReferenceSft).good());  // 64 and 20,000 too: the run goes on
  expect_finding(line + "batch_size=32", "eval-every", Verdict::ok, "every 20000 examples");
  expect_finding("model=pythia28 batch_size=64 eval_every=63", "eval-every", Verdict::error,
                 "eval_every=63 is less than batch_size=64: rounded down to a multiple of it, 0 is left");
}

TEST(EvalEvery, NullSwitchesItOff) {
  const std::string line = "model=pythia28 batch_size=32 eval_every=null ";
  expect_finding(line, "eval-every", Verdict::ok, "nothing is evaluated");
  const Plan plan = plan_of(line + "eval_batch_size=3 trainer=FSDPTrainer --gpus 2");
  EXPECT_FALSE(plan.resolved.eval_every);
  EXPECT_EQ(plan.find("eval-batch"), nullptr);
  EXPECT_EQ(plan.timing.evaluations, 0);
  EXPECT_EQ(plan.timing.evaluation_hours, 0);
  EXPECT_EQ(plan.disk.checkpoints, 1);
  expect_finding(line, "save-every", Verdict::hint, "the only checkpoint is that of the end");
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
  expect_finding(line + "6400", "save-every", Verdict::ok, "every 6400 examples");
  expect_finding(line + "6500", "save-every", Verdict::warning,
                 "save_every=6500 is not a multiple of batch_size=64: rounded down to 6464");
  expect_finding(line + "63", "save-every", Verdict::error,
                 "save_every=63 is less than batch_size=64: rounded down to a multiple of it, 0 is left, and "
                 "there would be no checkpoint before the end");
}

TEST(BestMetric, NeedsAnEvaluationOfEveryCheckpoint) {
  const std::string line = "model=pythia28 batch_size=32 eval_every=3200 best_metric=loss/eval ";
  expect_finding(line, "best-metric", Verdict::ok, "the best checkpoint by loss/eval");
  expect_finding(line + "save_every=6400", "best-metric", Verdict::ok, "");
  const std::string uneven = line + "save_every=4800 ";
  expect_finding(uneven, "best-metric", Verdict::error, "save_every must be a multiple of eval_every");
  const Plan plan = plan_of(uneven);
  EXPECT_EQ(plan.find("best-metric")->remedies.at(0).overrides,
            (std::vector<std::string>{"save_every=6400"}));
  expect_finding(line + "save_every=1600", "best-metric", Verdict::error, "");
  expect_finding(
      line + "eval_every=null", "best-metric", Verdict::error,
      "best_metric=loss/eval is a metric of the evaluation, and eval_every=null switches that off");
  EXPECT_EQ(plan_of("model=pythia28 save_every=1600").find("best-metric"), nullptr);
}

TEST(EvalBatch, WarnsWhenGpusWait) {
  expect_finding("model=pythia28 trainer=FSDPTrainer batch_size=8 eval_batch_size=6 --gpus 4", "eval-batch",
                 Verdict::warning, "eval_batch_size=6 does not divide over 4 GPUs");
  expect_finding("model=pythia28 eval_batch_size=6 --gpus 4", "eval-batch", Verdict::ok, "");
}

TEST(PromptRoom, APromptLeavesRoomForAResponse) {
  expect_finding("model=pythia28 max_length=256 max_prompt_length=256", "prompt-room", Verdict::error,
                 "max_prompt_length=256 leaves no room for a response within max_length=256");
  expect_finding("model=pythia28 max_length=257 max_prompt_length=256", "prompt-room", Verdict::ok, "");
}

TEST(HostMemory, HoldsTheCopyOfACheckpoint) {
  // 2.78B parameters, float32 weights and one array: 20.7 GiB.
  Inputs in = inputs_of("model=pythia28 --device h200");
  for (const auto& [gib, verdict] :
       {std::pair(20.0, Verdict::error), std::pair(25.0, Verdict::warning), std::pair(64.0, Verdict::ok)}) {
    in.surroundings.host_memory = gib * (1 << 30);
    const Plan plan = make_plan(in);
    ASSERT_NE(plan.find("host-memory"), nullptr);
    EXPECT_EQ(plan.find("host-memory")->verdict, verdict) << gib;
  }
  for (const auto& [replicas, verdict] : {std::pair("1", Verdict::ok), std::pair("2", Verdict::error)}) {
    in = inputs_of(
        std::string("model=pythia28 trainer=FSDPTrainer --device h200 --gpus 2 --nodes 2 mesh.replica=") +
        replicas);
    in.surroundings.host_memory = 20.0 * (1 << 30);
    EXPECT_EQ(make_plan(in).find("host-memory")->verdict, verdict) << replicas;
  }
}

TEST(Context, OfTheModelIsLongEnough) {
  expect_finding("model=pythia28 max_length=4096", "context", Verdict::error,
                 "max_length=4096 is more than the 2048 tokens that the model computes");
  expect_finding("model=gpt2-large max_length=1025", "context", Verdict::error, "the 1024 tokens");
  expect_finding("model=blank_model model.name_or_path=mistralai/Mistral-7B-v0.1 max_length=4097", "context",
                 Verdict::error, "the 4096 tokens");  // its window
  expect_finding("model=gpt2-large max_length=1024", "context", Verdict::ok, "");
}

TEST(Float16, IsNotThePolicysType) {
  expect_finding("model=pythia28 model.policy_dtype=float16", "float16", Verdict::error, "bfloat16");
  expect_finding("model=pythia28 model.fsdp_policy_mp=float16", "float16", Verdict::error, "bfloat16");
  EXPECT_EQ(plan_of("model=pythia28 model.reference_dtype=float16 loss=dpo loss.beta=0.1").find("float16"),
            nullptr);
}

TEST(ReferenceModel, OfPreferenceLossesWasFineTuned) {
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1", "reference", Verdict::warning, "no model.archive");
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1 model.archive=/no/such/policy.pt", "reference",
                 Verdict::warning, "model.archive=/no/such/policy.pt does not exist here");
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1 model.archive=/", "reference", Verdict::ok, "");
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1 loss.reference_free=true", "reference", Verdict::ok,
                 "reference-free");
  expect_finding("model=pythia28 loss=sft", "reference", Verdict::ok, "SFT needs no reference");
}

TEST(ReferenceModel, IsChosenByThePlannerWhenLeftOpen) {
  const std::string line = "model=llama7b loss=dpo loss.beta=0.1 model.fsdp_policy_mp=bfloat16 batch_size=4 ";
  EXPECT_EQ(plan_of(line + "--device h200").reference, Reference::live);
  EXPECT_EQ(plan_of(line + "--device h200 n_epochs=2").reference,
            Reference::cached);  // scored once, used twice
  Inputs tight = inputs_of(line + "--device h200");
  tight.machine.device.memory = make_plan(tight).memory.total();  // of which the driver keeps a little
  EXPECT_EQ(make_plan(tight).reference, Reference::cached);
  EXPECT_TRUE(make_plan(tight).fits());
  EXPECT_EQ(plan_of(line + "reference=live n_epochs=2").reference, Reference::live);
  EXPECT_EQ(plan_of("model=pythia28").reference, Reference::none);
}

TEST(TensorSplit, NamesTheDegreesThatDivideTheHeads) {
  expect_finding(
      "model=gpt2-xl trainer=TensorParallelTrainer --gpus 8", "tensor-split", Verdict::error,
      "25 attention heads (25 of keys and values) and an MLP of 6400 do not divide over 8 GPUs; degrees "
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
  expect_finding(line, "tensor-split", Verdict::error, "do not divide over 4 GPUs; degrees that do: 1");
  EXPECT_EQ(plan_of(line).find("tensor-split")->remedies.at(0).overrides,
            (std::vector<std::string>{"trainer=FSDPTrainer", "mesh.tensor=null"}));
  const Plan five = plan_of("model=gpt2-xl trainer=TensorParallelTrainer batch_size=8 --gpus 10");
  EXPECT_EQ(five.find("tensor-split")->remedies.at(0).overrides,
            (std::vector<std::string>{"mesh.shard=2", "mesh.tensor=5"}));
}

TEST(TensorLinks, BelongWithinAMachine) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer batch_size=32 --gpus 4 --nodes 2 ";
  expect_finding(line + "mesh.tensor=4", "tensor-links", Verdict::ok, "groups of 4 within a machine");
  expect_finding(line + "mesh.tensor=8", "tensor-links", Verdict::hint, "cross machines of 4");
  EXPECT_FALSE(plan_of(line).find("tensor-links"));
}

TEST(OptimizerSplit, AdafactorNeedsWholeMatrices) {
  const std::string line = "model=pythia28 optimizer=Adafactor batch_size=16 --gpus 4 ";
  expect_finding(
      line + "trainer=FSDPTrainer mesh.shard=4", "optimizer-split", Verdict::error,
      "optimizer=Adafactor needs whole matrices, and 4 shards divide them: BasicTrainer, or AdamW");
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
  EXPECT_NEAR(two.timing.step, plan_of(line + "--gpus 2").timing.step, 1e-12);
  expect_finding(line + "mesh.shard=2 --gpus 8", "idle-gpus", Verdict::hint, "2 ranks on 2 of 8 GPUs");
  EXPECT_FALSE(plan_of(line + "--gpus 8").find("idle-gpus"));
  EXPECT_FALSE(plan_of("model=pythia28 --gpus 8").find("idle-gpus"));
  // More ranks than GPUs share them.
  EXPECT_GT(plan_of(line + "mesh.shard=4 --gpus 2").timing.step, plan_of(line + "--gpus 4").timing.step);
}

TEST(MeshOfAPlan, ContradictionsAreRefused) {
  EXPECT_THROW(plan_of("model=pythia28 trainer=FSDPTrainer mesh.shard=3 --gpus 8 --nodes 2"), UserError);
  EXPECT_THROW(plan_of("model=pythia28 trainer=FSDPTrainer mesh.tensor=3 --gpus 8"), UserError);
  EXPECT_THROW(plan_of("model=pythia28 mesh.shard=2 --gpus 2"), UserError);
}

TEST(BatchPerGpu, CountsGroupsOfAMesh) {
  const std::string line = kDpo + "trainer=FSDPTrainer batch_size=16 gradient_accumulation_steps=2 ";
  expect_finding(line + "mesh.tensor=2 --gpus 8", "batch-per-gpu", Verdict::ok,
                 "16 / (2 accumulation steps x 4 groups of 2 GPUs) = 2 pairs per group and microbatch");
  expect_finding(line + "mesh.replica=2 --gpus 8", "batch-per-gpu", Verdict::warning,
                 "16 / (2 accumulation steps x 8 GPUs) = 1 pair");
  expect_finding(line + "mesh.shard=4 --device cpu", "batch-per-gpu", Verdict::ok, "x 4 ranks) = 2 pairs");
}

TEST(Spread, BasicTrainerIsOneProcess) {
  expect_finding("model=pythia28 --gpus 2", "spread", Verdict::hint, "take turns");
  expect_finding("model=pythia28 --gpus 2 --nodes 2", "spread", Verdict::error, "it cannot use 2 machines");
  EXPECT_FALSE(plan_of("model=pythia28 --gpus 1").find("spread"));
}

TEST(DiskRule, SaysWhyAFolderCannotBeMade) {
  Inputs in = inputs_of("model=pythia28");
  in.surroundings.run_folder = "/proc/x";
  in.surroundings.free_disk = 0;
  in.surroundings.obstacle = "/proc is no place";
  const Plan plan = make_plan(in);
  EXPECT_EQ(verdict_of(plan, "disk"), Verdict::error);
  EXPECT_TRUE(plan.find("disk")->message.starts_with(
      "the run folder /proc/x cannot be made: /proc is no place; local_run_dir=DIR"))
      << plan.find("disk")->message;
}

TEST(LengthsRule, AMeanIsNeverNegative) {
  expect_finding("model=pythia28 max_length=10", "lengths", Verdict::ok, "10 tokens in a mean example");
}

TEST(MemoryRule, SaysWhatIsNeededAndThere) {
  expect_finding("model=llama7b --device rtx4090", "memory", Verdict::error,
                 "GiB are needed on each rtx4090, 23.3 GiB are there");
  expect_finding("model=gpt2-large --device rtx4090", "memory", Verdict::ok, "of 23.3 GiB");
}

TEST(DiskRule, CountsCheckpointsToCome) {
  Inputs in = inputs_of("model=pythia28 batch_size=32");
  const Plan plan = make_plan(in);
  // Float32 weights and one value of RMSprop: 8 * 2,775,208,960 bytes, at 20,000 ... 160,000 examples and at
  // the end.
  EXPECT_EQ(plan.disk.checkpoint, 8 * 2'775'208'960.0);
  EXPECT_EQ(plan.disk.checkpoints, 9);
  EXPECT_EQ(verdict_of(plan, "disk"), Verdict::ok);  // the disk of another machine is not known
  in.surroundings.free_disk = plan.disk.total() - 1;
  const Plan full = make_plan(in);
  EXPECT_EQ(verdict_of(full, "disk"), Verdict::error);
  EXPECT_TRUE(full.find("disk")->remedies.at(0).overrides.at(0).starts_with("save_every="));
  ASSERT_EQ(full.find("disk")->remedies.size(), 2u);  // fewer, or only the newest
  for (const Remedy& remedy : full.find("disk")->remedies) {
    Inputs other = in;
    other.run = config::with_overrides(in.run, remedy.overrides);
    EXPECT_EQ(verdict_of(make_plan(other), "disk"), Verdict::ok) << remedy.overrides[0];
  }
  in.surroundings.free_disk = 0;
  in.run.debug = true;
  EXPECT_EQ(verdict_of(make_plan(in), "disk"), Verdict::ok);
}

TEST(DiskRule, CountsWhatIsKeptBesideANewCheckpoint) {
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 keep_last=2").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 keep_last=2 best_metric=loss/eval").disk.checkpoints, 4);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 keep_last=50").disk.checkpoints, 9);
}

TEST(DiskRule, FollowsSaveEvery) {
  // 160,800 examples, the last of which are saved once, also where that is a multiple.
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=3200").disk.checkpoints, 51);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=80384").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=80400").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=48 save_every=80400").disk.checkpoints, 2);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 save_every=3200 keep_last=2").disk.checkpoints, 3);
  EXPECT_EQ(plan_of("model=pythia28 batch_size=32 eval_every=null save_every=40000").disk.checkpoints, 5);
}

TEST(LengthsRule, SaysWhoseStatisticsStandIn) {
  expect_finding("model=pythia28 datasets=[shp]", "lengths", Verdict::hint,
                 "shp is not on this machine, and there are no statistics of it");
  expect_finding("model=pythia28", "lengths", Verdict::ok, "by the statistics of hh");
}

Lengths counted(std::int64_t train, std::int64_t test, Known known = Known::tokens) {
  Lengths lengths = extreme_lengths(40, 1).back();
  lengths.known = known;
  lengths.train_prompts = lengths.train_pairs = train;
  lengths.test_prompts = lengths.test_pairs = test;
  lengths.prompt = {30};
  lengths.response = {10};
  lengths.longest_prompt = 30;
  lengths.longest_response = 10;
  return lengths;
}

Plan plan_with(const std::string& line, const Lengths& lengths) {
  Inputs in = inputs_of(line);
  in.lengths = lengths;
  return make_plan(in);
}

TEST(LengthsRule, SaysHowTheDataWasCounted) {
  const auto message = [](Known known) {
    return plan_with("model=pythia28", counted(200, 8, known)).find("lengths")->message;
  };
  EXPECT_EQ(message(Known::tokens), "200 examples, 40 tokens in a mean example, all counted");
  EXPECT_EQ(message(Known::sample), "200 examples counted, 40 tokens in a mean example by a sample of them");
  EXPECT_NE(message(Known::bytes).find("by four bytes a token"), std::string::npos);
}

TEST(AssumedLengths, RefuseNoRun) {
  const std::string line = "model=pythia28 batch_size=32 eval_every=320 ";
  Inputs in = inputs_of(line + "datasets=[mine.jsonl]");
  in.surroundings.free_disk = 100e9;  // 503 checkpoints of another data set's size would not fit
  Plan plan = make_plan(in);
  EXPECT_EQ(verdict_of(plan, "disk"), Verdict::warning);
  EXPECT_NE(plan.find("disk")->message.find("by the statistics of hh, so the run is not refused for it"),
            std::string::npos);
  EXPECT_TRUE(plan.good());
  in.surroundings.free_disk = 1e9;  // not even one fits, whatever the data is
  EXPECT_EQ(verdict_of(make_plan(in), "disk"), Verdict::error);
  in = inputs_of(line + "datasets=[hh]");  // which are its own
  in.surroundings.free_disk = 100e9;
  EXPECT_EQ(verdict_of(make_plan(in), "disk"), Verdict::error);

  const std::string large =
      "model=pythia28 datasets=[mine.jsonl] batch_size=200000 eval_every=200000 "
      "gradient_accumulation_steps=200000 ";
  EXPECT_EQ(verdict_of(plan_of(large), "warmup"), Verdict::warning);
  EXPECT_EQ(verdict_of(plan_of(large + "datasets=[hh]"), "warmup"), Verdict::error);
  // What is strict is so about what is known.
  const std::string strict =
      "model=pythia28 datasets=[mine.jsonl] n_examples=null warmup_steps=100000 plan.strict=true ";
  EXPECT_EQ(verdict_of(plan_of(strict), "warmup"), Verdict::warning);
  // A batch whose texts may be long does not fit; that of short ones would.
  const std::string memory = "model=pythia28 batch_size=128 optimizer=SGD --device a100-80gb datasets=";
  EXPECT_EQ(verdict_of(plan_of(memory + "[hh]"), "memory"), Verdict::error);
  EXPECT_EQ(verdict_of(plan_of(memory + "[mine.jsonl]"), "memory"), Verdict::warning);
}

TEST(SmallData, IsNoticed) {
  const Plan plan = plan_with("model=pythia28 batch_size=4", counted(200, 3));
  EXPECT_EQ(verdict_of(plan, "warmup"), Verdict::warning);
  EXPECT_NE(plan.find("warmup")->message.find("warmup_steps=150 is not less than the 50 updates of the run"),
            std::string::npos);
  EXPECT_EQ(verdict_of(plan, "eval-batch"), Verdict::hint);
  EXPECT_NE(plan.find("eval-batch")->message.find("the test split has only 3 examples"), std::string::npos);
  EXPECT_TRUE(plan.good());
  const std::string kto = "model=gpt2-xl loss=kto loss.beta=0.1 batch_size=4";
  EXPECT_EQ(verdict_of(plan_with(kto, counted(200, 2)), "mismatched"), Verdict::ok);
  EXPECT_EQ(verdict_of(plan_with(kto, counted(200, 1)), "mismatched"), Verdict::error);
}

TEST(Warmup, EndsBeforeTheRun) {
  expect_finding("model=pythia28 n_examples=400", "warmup", Verdict::warning,
                 "not less than the 100 updates of the run");
  expect_finding("model=pythia28", "warmup", Verdict::ok, "150 of 40200 updates");
  expect_finding("model=pythia28 batch_size=200000 eval_every=200000", "warmup", Verdict::error,
                 "no update at all");
}

TEST(KnownSettings, AreHintsOnly) {
  expect_finding("model=pythia28 batch_size=32 lr=1e-3", "known-settings", Verdict::hint,
                 "lr=0.001 is outside");
  expect_finding(kDpo + "batch_size=32 loss.beta=5", "known-settings", Verdict::hint,
                 "loss.beta=5 is outside");
  expect_finding("model=pythia28 batch_size=1", "known-settings", Verdict::hint, "batch_size=1 is far");
  const std::string simpo = "model=pythia28 loss=simpo batch_size=32 loss.beta=";
  expect_finding(simpo + "2", "known-settings", Verdict::ok, "");
  expect_finding(simpo + "0.1", "known-settings", Verdict::hint, "(usual for loss=simpo: 2 to 10)");
  expect_finding("model=pythia28 loss=orpo loss.beta=0.1 batch_size=32 lr=8e-6", "known-settings",
                 Verdict::ok, "");
  expect_finding(kDpo + "batch_size=32", "known-settings", Verdict::ok, "");
}

TEST(TokensPerGpu, ReportsTheThresholdOfTheLink) {
  const std::string line = "model=pythia28 trainer=FSDPTrainer model.fsdp_policy_mp=bfloat16 ";
  expect_finding(line + "batch_size=512 --gpus 8 --device h100", "tokens-per-gpu", Verdict::ok,
                 "h100 over 360 GB/s");
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
