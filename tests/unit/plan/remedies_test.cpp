#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "plan/savings.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

std::vector<std::string> lines_of(const Finding& finding) {
  std::vector<std::string> lines;
  for (const Remedy& remedy : finding.remedies)
    lines.push_back(fmt::format("{}", fmt::join(remedy.overrides, " ")));
  return lines;
}

bool is_error(const Plan& plan, const std::string& id) {
  const Finding* finding = plan.find(id);
  return finding && finding->verdict == Verdict::error;
}

// Plans the run with each remedy of its plan, and checks that the finding is gone and that there is no new
// error. Returns the number of remedies.
std::size_t apply_remedies(const std::string& line) {
  std::size_t applied = 0;
  const Plan before = plan_of(line);
  for (const Finding& finding : before.findings)
    for (const std::string& words : lines_of(finding)) {
      const Plan after = plan_of(line + " " + words);  // throws where the mesh contradicts the ranks
      const Finding* left = after.find(finding.id);
      EXPECT_TRUE(!left || left->verdict < Verdict::warning) << line << " " << words << "\n" << left->message;
      const bool must_fit = before.fits() || finding.id == "batch-per-gpu" || finding.id == "memory";
      EXPECT_TRUE(!must_fit || after.fits()) << line << " " << words;
      for (const Finding& other : after.findings)
        EXPECT_TRUE(!is_error(after, other.id) || is_error(before, other.id)) << line << " " << words << "\n"
                                                                              << other.message;
      ++applied;
    }
  return applied;
}

TEST(Remedies, OfTheBatchRuleComeInTheReferencesOrder) {
  const Plan plan = plan_of(
      "model=pythia28 loss=dpo loss.beta=0.1 trainer=FSDPTrainer batch_size=16 "
      "gradient_accumulation_steps=2 --gpus 8");
  const std::vector<std::string> expected = {"model.fsdp_policy_mp=bfloat16 gradient_accumulation_steps=1",
                                             "gradient_accumulation_steps=1", "batch_size=32", "--gpus 4",
                                             "trainer=BasicTrainer"};
  EXPECT_EQ(lines_of(*plan.find("batch-per-gpu")), expected);
}

TEST(Remedies, WithoutAccumulationTheRoomGoesIntoALargerBatch) {
  const Plan plan = plan_of("model=pythia28 trainer=FSDPTrainer batch_size=8 --gpus 8");
  const auto lines = lines_of(*plan.find("batch-per-gpu"));
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines[0], "model.fsdp_policy_mp=bfloat16 batch_size=16");
  EXPECT_EQ(lines[1], "batch_size=16");
}

TEST(Remedies, OfTheBatchRuleHaveCheckpointingWhereItIsNeeded) {
  const std::string line =
      "model=llama7b loss=dpo loss.beta=0.1 trainer=FSDPTrainer model.fsdp_policy_mp=bfloat16 batch_size=8 "
      "gradient_accumulation_steps=2 --gpus 4 --device rtx4090 ";
  EXPECT_FALSE(plan_of(line + "gradient_accumulation_steps=1").fits());
  const Plan plan = plan_of(line);
  EXPECT_EQ(lines_of(*plan.find("batch-per-gpu")).front(),
            "activation_checkpointing=auto gradient_accumulation_steps=1");
  // A larger batch would fit here, but it would be a different training.
  const Plan other = plan_of(line + "optimizer_state=bfloat16 batch_size=12 gradient_accumulation_steps=3");
  EXPECT_EQ(lines_of(*other.find("batch-per-gpu")).front(),
            "activation_checkpointing=auto gradient_accumulation_steps=1");
}

TEST(Remedies, WhatIsOnAlreadyIsNotOffered) {
  const Plan plan = plan_of(
      "model=pythia28 trainer=FSDPTrainer batch_size=8 model.fsdp_policy_mp=bfloat16 "
      "activation_checkpointing=auto --gpus 8");
  for (const std::string& line : lines_of(*plan.find("batch-per-gpu"))) {
    EXPECT_EQ(line.find("fsdp_policy_mp"), std::string::npos) << line;
    EXPECT_EQ(line.find("activation_checkpointing"), std::string::npos) << line;
  }
}

TEST(Remedies, ThatDoNotFitAreNotOffered) {
  // Llama-7B in float32 does not fit on one of these GPUs. Neither fewer GPUs nor BasicTrainer on one GPU is
  // a remedy.
  const Plan plan = plan_of("model=llama7b trainer=FSDPTrainer batch_size=2 --gpus 2 --device l40s");
  for (const std::string& line : lines_of(*plan.find("batch-per-gpu")))
    EXPECT_EQ(line.find("--gpus 1"), std::string::npos);
}

TEST(Remedies, OfMemoryMakeItFit) {
  const Plan plan = plan_of("model=pythia69 --device a100-80gb batch_size=32");
  ASSERT_EQ(verdict_of(plan, "memory"), Verdict::error);
  EXPECT_FALSE(plan.find("memory")->remedies.empty());
}

TEST(Remedies, SaysThatThereIsNone) {
  Inputs in = inputs_of("model=pythia69 --device cpu batch_size=32");
  in.machine.device.memory = 1e9;
  const Plan small = make_plan(in);
  EXPECT_TRUE(small.find("memory")->remedies.empty());
  EXPECT_NE(
      small.find("memory")->message.find(
          "no combination of settings fits: with every memory-saving one (model.fsdp_policy_mp=bfloat16 "
          "activation_checkpointing=auto max_grad_norm=null model.policy_dtype=bfloat16 adapter=lora "
          "adapter.base_dtype=nf4 optimizer=SGD max_length=128 max_prompt_length=64) it still needs"),
      std::string::npos)
      << small.find("memory")->message;
}

// A batch of 4 is too small for 8 shards, and the savings know only shards. --fit finds another mesh.
TEST(Remedies, AreWhatFitFinds) {
  const std::string line =
      "model=llama7b loss=sft batch_size=4 trainer=FSDPTrainer mesh.replica=4 mesh.shard=1 --gpus 8 "
      "--device rtx4090";
  const auto fit = find_fastest(inputs_of(line));
  ASSERT_TRUE(fit);
  const Plan plan = plan_of(line);
  EXPECT_EQ(plan.find("memory")->message.find("no combination"), std::string::npos);
  EXPECT_EQ(lines_of(*plan.find("memory")).front(), fmt::format("{}", fmt::join(fit->overrides, " ")));
  EXPECT_GE(apply_remedies(line), 1u);
}

// Eight parts would be small enough, but eight ranks can neither split 71 heads nor share eight examples.
TEST(Remedies, DoNotBlameMemoryForAnotherRule) {
  Inputs in = inputs_of(
      "model=llama7b batch_size=8 trainer=TensorParallelTrainer mesh.replica=8 plan.strict=true --gpus 8");
  in.machine.launched = Launched{.ranks = 8, .on_machine = 8};
  in.machine.device.memory = 4.5e9;
  in.shape.heads = in.shape.kv_heads = 71;
  EXPECT_FALSE(find_fastest(in));
  const Plan plan = make_plan(in);
  EXPECT_NE(plan.find("memory")->message.find("no combination of settings fits and keeps the other rules"),
            std::string::npos)
      << plan.find("memory")->message;
}

TEST(Remedies, OfMemoryTryEverySetting) {
  // Llama-7B's DPO fits on 24 GB with weights in 16 bits, freed gradients, recomputed activations and
  // offloaded state.
  const std::string line = "model=llama7b loss=dpo loss.beta=0.1 batch_size=4 --device rtx4090 ";
  EXPECT_TRUE(plan_of(line + "model.policy_dtype=bfloat16 max_grad_norm=null activation_checkpointing=true "
                             "offload=optimizer")
                  .fits());
  const Plan plan = plan_of(line);
  ASSERT_EQ(verdict_of(plan, "memory"), Verdict::error);
  const auto lines = lines_of(*plan.find("memory"));
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines[0].find("model.policy_dtype=bfloat16"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("fsdp_policy_mp"), std::string::npos) << lines[0];  // not needed
  EXPECT_EQ(lines[0].find("SGD"), std::string::npos) << lines[0];
  EXPECT_EQ(plan.find("memory")->message.find("no combination of settings"), std::string::npos);
  for (const std::string& words : lines) EXPECT_TRUE(plan_of(line + words).fits()) << words;
}

// A run with LoRA that fits into 24 GB only if its frozen matrices have 8 bits, or 4.
TEST(Remedies, OfMemoryOfferFrozenMatricesInFewBits) {
  const std::string line =
      "model=blank_model loss=dpo loss.beta=0.1 batch_size=64 gradient_accumulation_steps=32 "
      "activation_checkpointing=true adapter=lora model.fsdp_policy_mp=bfloat16 --device rtx4090 ";
  for (const auto& [model, dtype] :
       {std::pair("allenai/OLMo-2-1124-13B", "int8"), {"google/gemma-3-27b-it", "nf4"}}) {
    const std::string run = line + "model.name_or_path=" + model + " ";
    const Plan plan = plan_of(run);
    ASSERT_EQ(verdict_of(plan, "memory"), Verdict::error);
    const auto lines = lines_of(*plan.find("memory"));
    ASSERT_FALSE(lines.empty()) << model;
    EXPECT_EQ(lines[0], std::string("adapter.base_dtype=") + dtype);
    EXPECT_TRUE(plan_of(run + lines[0]).fits());
    const std::optional<Fit> fit = find_fastest(inputs_of(run));
    ASSERT_TRUE(fit);
    EXPECT_EQ(fit->overrides.front(), std::string("adapter.base_dtype=") + dtype);
  }
}

// Matmuls in 8 bits need frozen matrices in 16 bits, so quantizing these switches fp8 off.
TEST(Remedies, OfMemoryGiveUpFp8ForFrozenMatricesInFewBits) {
  Inputs in = inputs_of(
      "model=blank_model model.name_or_path=meta-llama/Llama-3.1-8B loss=dpo loss.beta=0.1 batch_size=16 "
      "model.fsdp_policy_mp=bfloat16 fp8=true --device rtx4090");
  in.machine.device.memory /= 2;
  const std::optional<Fit> fit = find_fastest(in);
  ASSERT_TRUE(fit);
  EXPECT_EQ(Overrides(fit->overrides.begin(), fit->overrides.begin() + 3),
            (Overrides{"adapter=lora", "adapter.base_dtype=int8", "fp8=false"}));
  EXPECT_TRUE(fit->plan.fits() && fit->plan.passes());
  for (const Inputs& run : {in, changed(in, {"adapter=lora"})}) {
    const auto lines = lines_of(*make_plan(run).find("memory"));
    ASSERT_FALSE(lines.empty());
    EXPECT_NE(lines[0].find("adapter.base_dtype=int8 fp8=false"), std::string::npos) << lines[0];
  }
}

// Several GPUs may need it too: LoRA of a 27B model needs 8 bits on two GPUs of 24 GB.
TEST(Remedies, OfMemoryOfferFrozenMatricesInFewBitsToRanks) {
  const std::string line =
      "model=blank_model model.name_or_path=google/gemma-3-27b-it loss=dpo loss.beta=0.1 batch_size=64 "
      "gradient_accumulation_steps=32 activation_checkpointing=true adapter=lora "
      "model.fsdp_policy_mp=bfloat16 "
      "--device rtx4090 --gpus 2 ";
  for (const std::string trainer : {"FSDPTrainer", "TensorParallelTrainer"}) {
    const Plan plan = plan_of(line + "trainer=" + trainer);
    ASSERT_EQ(verdict_of(plan, "memory"), Verdict::error);
    const auto lines = lines_of(*plan.find("memory"));
    ASSERT_FALSE(lines.empty());
    EXPECT_NE(lines[0].find("adapter.base_dtype="), std::string::npos) << lines[0];
    EXPECT_TRUE(plan_of(line + "trainer=" + trainer + " " + lines[0]).fits());
    const std::optional<Fit> fit = find_fastest(inputs_of(line + "trainer=" + trainer));
    ASSERT_TRUE(fit);
    EXPECT_EQ(fit->overrides.front(), "adapter.base_dtype=int8");
    EXPECT_TRUE(fit->plan.fits());
  }
}

TEST(Remedies, OfMemoryNameTheGpusThatAreEnough) {
  const std::string line =
      "model.name_or_path=Qwen/Qwen2.5-72B loss=dpo loss.beta=0.1 batch_size=8 --device rtx4090 ";
  const Plan plan = plan_of(line);
  const Finding& memory = *plan.find("memory");
  EXPECT_NE(memory.message.find("no combination of settings fits"), std::string::npos) << memory.message;
  const auto lines = lines_of(memory);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("--gpus "), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("--device "), std::string::npos) << lines[1];
  EXPECT_EQ(lines[1].find("SGD"), std::string::npos) << lines[1];  // not needed
  for (const std::string& words : lines) EXPECT_TRUE(plan_of(line + words).fits()) << words;
}

// More GPUs may need a larger batch, which must not end between evaluations.
TEST(Remedies, OfMemoryKeepTheIntervals) {
  const Plan plan = plan_of(
      "model.name_or_path=Qwen/Qwen2.5-72B loss=dpo loss.beta=0.1 batch_size=3 eval_every=19998 "
      "--device rtx4090");
  const auto lines = lines_of(*plan.find("memory"));
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines[0].find("batch_size=4 eval_every=19996 --gpus 4"), std::string::npos) << lines[0];
}

// All weights of a 13B model do not fit into 24 GB. LoRA does, and other GPUs would train them all.
TEST(Remedies, OfMemoryNameLoraAndOtherGpus) {
  const std::string line =
      "model.name_or_path=allenai/OLMo-2-1124-13B loss=dpo loss.beta=0.1 batch_size=8 --device rtx4090 ";
  const Plan plan = plan_of(line);
  const Finding& memory = *plan.find("memory");
  EXPECT_EQ(memory.message.find("no combination"), std::string::npos) << memory.message;
  const auto lines = lines_of(memory);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("adapter=lora"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("--"), std::string::npos) << lines[0];
  for (const std::size_t other : {1, 2}) EXPECT_EQ(lines[other].find("adapter"), std::string::npos);
  for (const std::string& words : lines) EXPECT_TRUE(plan_of(line + words).fits()) << words;
}

// A change that trains all weights on the same machine is named before LoRA.
TEST(Remedies, OfMemoryNameLoraLast) {
  const Plan plan = plan_of(
      "model=blank_model model.name_or_path=mistralai/Mistral-7B-v0.1 loss=dpo loss.beta=0.1 batch_size=64 "
      "offload=optimizer max_grad_norm=null model.policy_dtype=bfloat16 activation_checkpointing=auto "
      "gradient_accumulation_steps=4 --device rtx4090 --gpus 1");
  const auto lines = lines_of(*plan.find("memory"));
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines[0], "gradient_accumulation_steps=1");
}

// A resumed run keeps its number formats. The place of its state and the recomputed layers may change.
TEST(Remedies, OfAResumedRunKeepItsNumbers) {
  const auto offered = [](const std::string& line, const std::optional<std::string>& resume) {
    Inputs in = inputs_of(line);
    in.run.resume = resume;
    const Plan plan = make_plan(in);
    return fmt::format("{}", fmt::join(lines_of(*plan.find("memory")), "\n"));
  };
  const std::string small = "model=pythia28 optimizer=AdamW batch_size=64 --device rtx4090",
                    large = "model=llama7b optimizer=AdamW batch_size=4 --device a100-40gb";
  EXPECT_NE(offered(small, "runs/before").find("offload=optimizer"), std::string::npos);
  EXPECT_NE(offered(large, {}).find("max_grad_norm=null"), std::string::npos) << offered(large, {});
  EXPECT_EQ(offered(large, "auto"), offered(large, {}));
  for (const char* fixed :
       {"adapter", "optimizer_", "max_grad_norm", "dtype", "fsdp_policy_mp", "max_length"})
    EXPECT_EQ(offered(large, "runs/before").find(fixed), std::string::npos) << offered(large, "runs/before");
}

TEST(Savings, MeshChangeSetsWhatDiffers) {
  using config::Trainer;
  const auto run = [](const std::string& line) { return inputs_of("model=gpt2-large --gpus 8 " + line).run; };
  const config::RunConfig fsdp = run("trainer=FSDPTrainer mesh.replica=1 mesh.shard=1 mesh.tensor=8");
  EXPECT_EQ(mesh_change(fsdp, Trainer::Fsdp, fsdp.mesh), Overrides());
  EXPECT_EQ(mesh_change(fsdp, Trainer::Fsdp, {}), (Overrides{"mesh.shard=null", "mesh.tensor=null"}));
  EXPECT_EQ(mesh_change(fsdp, Trainer::Basic, {}), (Overrides{"trainer=BasicTrainer", "mesh.tensor=null"}));
  EXPECT_EQ(mesh_change(fsdp, Trainer::TensorParallel, {.replica = 2, .shard = {}, .tensor = 4}),
            (Overrides{"trainer=TensorParallelTrainer", "mesh.replica=2", "mesh.tensor=4"}));
}

TEST(Savings, JoinedGiveTheReasonsOfWhatIsLeft) {
  const Saving all = joined({{{"optimizer_state=bfloat16"}, "16 bits"},
                             {{"optimizer_state=8bit"}, "8 bits"},
                             {{"adapter=lora"}, "LoRA"},
                             {{"adapter=lora", "adapter.base_dtype=nf4"}, "QLoRA"}});
  EXPECT_EQ(all.overrides, (Overrides{"optimizer_state=8bit", "adapter=lora", "adapter.base_dtype=nf4"}));
  EXPECT_EQ(all.reason, "8 bits, QLoRA");
  EXPECT_EQ(joined({{{"optimizer_state=8bit"}, "8 bits"}, {{"optimizer=SGD"}, "SGD"}}).reason, "SGD");
}

TEST(Remedies, WorkWhenApplied) {
  std::size_t applied = 0;
  for (const std::string model : {"gpt2-large", "llama7b"})
    for (const std::string loss : {"loss=sft", "loss=dpo loss.beta=0.1 reference=live"})
      for (const std::string device : {"rtx4090", "h200"})
        for (const std::string gpus : {"1", "3", "8"})
          for (const std::string batch : {"6", "48"})
            for (const std::string steps : {"1", "4"}) {
              const std::string line = fmt::format(
                  "model={} {} trainer=FSDPTrainer batch_size={} gradient_accumulation_steps={} "
                  "eval_every=19200 "
                  "--device {} --gpus {}",
                  model, loss, batch, steps, device, gpus);
              applied += apply_remedies(line);
            }
  EXPECT_GT(applied, 100u);
}

// A batch of another size may end between evaluations, not fit, or be split in a different way.
TEST(Remedies, ThatRulesProposeCauseNoOtherError) {
  const std::string strict =
      "model=pythia28 trainer=FSDPTrainer model.fsdp_policy_mp=bfloat16 batch_size=100 plan.strict=true "
      "--gpus 3";
  EXPECT_EQ(lines_of(*plan_of(strict).find("batch-divides")),
            (std::vector<std::string>{"batch_size=99 eval_every=19998", "batch_size=102 eval_every=19992"}));
  const std::string often =
      "model=pythia28 trainer=FSDPTrainer batch_size=15 eval_every=15 model.fsdp_policy_mp=bfloat16 --gpus 2";
  EXPECT_EQ(lines_of(*plan_of(often).find("batch-divides")),
            (std::vector<std::string>{"batch_size=14 eval_every=14", "batch_size=16 eval_every=16"}));
  // All 64 examples at once do not fit; neither does 1 step divide 8 examples over 6 GPUs.
  const std::string small =
      "model=pythia28 batch_size=64 gradient_accumulation_steps=128 model.policy_dtype=bfloat16 "
      "--device rtx4090";
  EXPECT_FALSE(plan_of(small + " gradient_accumulation_steps=1").fits());
  EXPECT_EQ(plan_of(small).find("accumulation")->remedies.size(), 1u);
  const std::string split =
      "model=gpt2-large trainer=FSDPTrainer batch_size=8 gradient_accumulation_steps=32 --gpus 6";
  EXPECT_EQ(lines_of(*plan_of(split).find("accumulation")),
            (std::vector<std::string>{"gradient_accumulation_steps=1 batch_size=6 eval_every=19998",
                                      "gradient_accumulation_steps=1 batch_size=12 eval_every=19992"}));
  const std::string alone = "model=gpt2-xl loss=kto loss.beta=0.1 batch_size=1 eval_batch_size=1";
  EXPECT_EQ(lines_of(*plan_of(alone).find("mismatched")),
            (std::vector<std::string>{"batch_size=2 eval_batch_size=2"}));
  for (const std::string& line : {strict, often, small, split, alone}) apply_remedies(line);
}

TEST(Remedies, FixOneErrorOfSeveral) {
  const std::string line = "model=llama7b max_prompt_length=512 --device rtx4090";
  const Plan plan = plan_of(line);
  ASSERT_FALSE(plan.fits());
  EXPECT_EQ(lines_of(*plan.find("prompt-room")), (std::vector<std::string>{"max_prompt_length=256"}));
}

// A mesh that does not divide the batch comes with a batch that it divides.
TEST(Remedies, UncoverNoBatchThatDoesNotDivide) {
  const std::string few =
      "model=gpt2-large batch_size=2 gradient_accumulation_steps=8 trainer=FSDPTrainer eval_every=null "
      "--gpus 6";
  EXPECT_EQ(lines_of(*plan_of(few).find("accumulation")),
            (std::vector<std::string>{"gradient_accumulation_steps=1 batch_size=6"}));
  // 6 GPUs do not split 32 heads, nor 25; 2 do split 32, and leave three shards.
  const std::string heads =
      "model=llama7b model.fsdp_policy_mp=bfloat16 trainer=TensorParallelTrainer batch_size=4 "
      "eval_every=null "
      "--gpus 6";
  EXPECT_EQ(lines_of(*plan_of(heads).find("tensor-split")),
            (std::vector<std::string>{"mesh.shard=3 mesh.tensor=2 batch_size=3",
                                      "mesh.shard=3 mesh.tensor=2 batch_size=6",
                                      "trainer=FSDPTrainer batch_size=6"}));
  const std::string odd = "model=gpt2-xl trainer=TensorParallelTrainer batch_size=4 eval_every=null --gpus 6";
  EXPECT_EQ(lines_of(*plan_of(odd).find("tensor-split")),
            (std::vector<std::string>{"trainer=FSDPTrainer batch_size=6"}));
  for (const std::string& line : {few, heads, odd}) apply_remedies(line);
}

// One process cannot use two machines; 64 examples divide over 16 GPUs, 20 do not.
TEST(Remedies, OfOneProcessOnSeveralMachinesShard) {
  const std::string line = "model=pythia28 loss=sft --gpus 8 --nodes 2 --device h100 eval_every=null ";
  EXPECT_EQ(lines_of(*plan_of(line + "batch_size=64").find("spread")),
            (std::vector<std::string>{"trainer=FSDPTrainer"}));
  EXPECT_EQ(
      lines_of(*plan_of(line + "batch_size=20").find("spread")),
      (std::vector<std::string>{"trainer=FSDPTrainer batch_size=16", "trainer=FSDPTrainer batch_size=32"}));
}

// A mesh with fixed sizes fits only one number of ranks. Remedies keep the sizes or reset them.
TEST(Remedies, OfAMeshHoldWhenApplied) {
  std::size_t applied = 0;
  for (const std::string& line :
       {std::string(
            "model=llama7b loss=dpo loss.beta=0.1 trainer=FSDPTrainer mesh.shard=8 batch_size=8 --gpus 8"),
        std::string("model=llama7b trainer=FSDPTrainer mesh.replica=8 mesh.shard=1 batch_size=16 --gpus 8"),
        std::string("model=llama7b trainer=FSDPTrainer fsdp_accumulate=whole batch_size=16 --gpus 8 "
                    "--device a100-40gb"),
        std::string("model=pythia69 trainer=TensorParallelTrainer mesh.tensor=2 batch_size=16 --gpus 2 "
                    "--device rtx4090"),
        std::string("model=gpt2-xl trainer=TensorParallelTrainer mesh.replica=2 batch_size=16 --gpus 8")})
    applied += apply_remedies(line);
  EXPECT_GE(applied, 7u);
}

TEST(Remedies, KeepTheRanksOfALauncher) {
  Inputs in = inputs_of("model=gpt2-large trainer=FSDPTrainer batch_size=4 --gpus 4");
  in.machine.launched = Launched{.ranks = 4, .on_machine = 4};
  const Plan plan = make_plan(in);
  const auto lines = lines_of(*plan.find("batch-per-gpu"));
  EXPECT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    EXPECT_EQ(line.find("BasicTrainer"), std::string::npos) << line;
    EXPECT_EQ(line.find("--gpus"), std::string::npos) << line;
  }
}

TEST(Remedies, OfMemoryUndoReplicasAndWholeSums) {
  const auto lines = [](const std::string& line) { return lines_of(*plan_of(line).find("memory")); };
  const auto replicas =
      lines("model=llama7b trainer=FSDPTrainer mesh.replica=8 mesh.shard=1 batch_size=16 --gpus 8");
  EXPECT_NE(std::find(replicas.begin(), replicas.end(), "mesh.replica=null mesh.shard=null"), replicas.end());
  const auto whole = lines(
      "model=llama7b trainer=FSDPTrainer fsdp_accumulate=whole batch_size=16 --gpus 8 --device a100-40gb");
  EXPECT_NE(std::find(whole.begin(), whole.end(), "fsdp_accumulate=sharded"), whole.end());
}

}  // namespace
}  // namespace dpo::plan
