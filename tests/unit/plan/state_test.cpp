// Tests plans of quantized and offloaded optimizer state.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "plan/savings.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

constexpr double kParameters = 2'775'208'960;  // of Pythia-2.8B

double optimizer_part(const Plan& plan) {
  for (const MemoryPart& part : plan.memory.parts)
    if (part.name == "optimizer") return part.bytes;
  return -1;
}

TEST(OptimizerStatePlan, CountsTheBytesOfEachStorage) {
  const std::string line = "model=pythia28 optimizer=AdamW ";
  EXPECT_NEAR(optimizer_part(plan_of(line)), 8 * kParameters, 1e5);
  EXPECT_NEAR(optimizer_part(plan_of(line + "optimizer_state=bfloat16")), 4 * kParameters, 1e5);
  // Each value takes a byte, plus a float32 scale for each 256.
  EXPECT_NEAR(optimizer_part(plan_of(line + "optimizer_state=8bit")), 2 * (1 + 1 / 64.0) * kParameters, 1e5);
  const std::string small = line + "model.policy_dtype=bfloat16 ";
  EXPECT_NEAR(optimizer_part(plan_of(small)), 4 * kParameters, 1e5);
  EXPECT_NEAR(optimizer_part(plan_of(small + "optimizer_state=float32")), 8 * kParameters, 1e5);
  EXPECT_NEAR(optimizer_part(plan_of("model=pythia28 optimizer_state=8bit")), (1 + 1 / 64.0) * kParameters,
              1e5);
  // 16 bits have less to read and write. Finding 8-bit codes takes longer than that saves. Checkpoints are
  // smaller.
  const auto seconds = [&](const std::string& state) {
    return plan_of(line + "optimizer_state=" + state).timing.optimizer;
  };
  EXPECT_LT(seconds("bfloat16"), seconds("float32"));
  EXPECT_GT(seconds("8bit"), seconds("float32"));
  EXPECT_NEAR(plan_of(line).disk.checkpoint - plan_of(line + "optimizer_state=bfloat16").disk.checkpoint,
              4 * kParameters, 1);
}

TEST(OptimizerStatePlan, OffloadingTakesHostMemoryAndTime) {
  const std::string line = "model=pythia28 optimizer=AdamW --device h200 ";
  const Plan resident = plan_of(line), offloaded = plan_of(line + "offload=optimizer");
  // The device holds three parts of 8 Mi parameters.
  EXPECT_NEAR(optimizer_part(offloaded), 3 * 8 * 8'388'608.0, 1);
  EXPECT_NEAR(resident.memory.total() - offloaded.memory.total(), 8 * kParameters - 3 * 8 * 8'388'608.0, 1e5);
  EXPECT_NEAR(offloaded.timing.optimizer, 8 * kParameters / 50e9, 1e-4);
  EXPECT_GT(offloaded.timing.update, resident.timing.update);
  EXPECT_EQ(offloaded.disk.checkpoint, resident.disk.checkpoint);
  expect_finding(line + "offload=optimizer", "offload", Verdict::ok, "in host memory per GPU");
  EXPECT_FALSE(resident.find("offload"));
  expect_finding(line + "offload=reference", "offload", Verdict::hint, "no weights of a reference");
  // A small state stays on the device.
  EXPECT_EQ(optimizer_part(plan_of("model=pythia28 adapter=lora optimizer=AdamW offload=optimizer")),
            optimizer_part(plan_of("model=pythia28 adapter=lora optimizer=AdamW")));
}

TEST(OptimizerStatePlan, OffloadedStateMustFitIntoHostMemory) {
  // The state has 20.7 GiB, and a checkpoint 31 GiB.
  Inputs in = inputs_of("model=pythia28 optimizer=AdamW offload=optimizer --device h200");
  for (const auto& [gib, verdict] :
       {std::pair(55.0, Verdict::error), std::pair(65.0, Verdict::warning), std::pair(128.0, Verdict::ok)}) {
    in.host.memory = gib * (1 << 30);
    EXPECT_EQ(verdict_of(make_plan(in), "host-memory"), verdict) << gib;
  }
  in.run.debug = true;  // no checkpoints
  in.host.memory = 20.0 * (1 << 30);
  EXPECT_EQ(verdict_of(make_plan(in), "host-memory"), Verdict::error);
}

TEST(OptimizerStatePlan, SaysWhereOffloadingDoesNothing) {
  expect_finding("model=pythia28 offload=optimizer --device cpu", "offload", Verdict::hint,
                 "changes nothing");
  expect_finding("model=pythia28 offload=both optimizer=SGD", "offload", Verdict::hint, "SGD has too little");
  expect_finding("model=pythia28 loss=dpo loss.beta=0.1 reference=live offload=both optimizer=SGD", "offload",
                 Verdict::ok, "of the reference's weights in host memory");
  const std::string cpu = "model=pythia28 --device cpu ";
  EXPECT_EQ(plan_of(cpu).memory.total(), plan_of(cpu + "offload=optimizer").memory.total());
  EXPECT_EQ(plan_of(cpu).timing.update, plan_of(cpu + "offload=optimizer").timing.update);
}

std::vector<std::string> offered(const std::string& line) {
  std::vector<std::string> words;
  for (const auto& [overrides, reason] : savings_of(inputs_of(line), Cost::bits))
    words.push_back(overrides[0] == "adapter=lora" ? overrides.back() : overrides[0]);
  return words;
}

double part_of(const std::string& line, const std::string& name) {
  for (const MemoryPart& part : plan_of(line).memory.parts)
    if (part.name == name) return part.bytes;
  return -1;
}

double gradients_of(const std::string& line) { return part_of(line, "gradients"); }

// Without clipping, one rank with one microbatch keeps the gradients of one block at a time. Those of the
// embedding stay all the time if the head shares its matrix.
TEST(GradientsPlan, AreOfABlockWhereNothingNeedsAll) {
  const double layer = 202'383'360, all = 6'738'415'616;  // of Llama-7B
  EXPECT_NEAR(gradients_of("model=llama7b max_grad_norm=null"), 4 * layer, 1e5);
  EXPECT_NEAR(gradients_of("model=llama7b max_grad_norm=null model.policy_dtype=bfloat16"), 2 * layer, 1e5);
  EXPECT_NEAR(gradients_of("model=llama7b"), 4 * all, 1e5);
  EXPECT_NEAR(gradients_of("model=llama7b max_grad_norm=null gradient_accumulation_steps=2"), 4 * all, 1e5);
  EXPECT_NEAR(gradients_of("model=llama7b max_grad_norm=null trainer=FSDPTrainer --gpus 2"), 2 * all, 1e5);
  EXPECT_NEAR(gradients_of("model=llama7b max_grad_norm=null --gpus 2"), 4 * layer, 1e5);  // spread over GPUs
  const double embedding = (50'257 + 1'024) * 1'280, gpt2_layer = 19'677'440;
  EXPECT_NEAR(gradients_of("model=gpt2-large max_grad_norm=null"), 4 * (embedding + gpt2_layer), 1e5);
}

// Adafactor needs a tensor and its change in float32, either after the activations are freed or in addition
// to them.
TEST(GradientsPlan, AnUpdateOfAdafactorNeedsRoom) {
  const std::string line = "model=llama7b optimizer=Adafactor model.policy_dtype=bfloat16 batch_size=4 ";
  const double head = 32'000 * 4'096, before = part_of(line, "workspace");
  EXPECT_NEAR(part_of(line + "max_grad_norm=null", "workspace"), before + 12 * head, 1e5);
}

// Autograd computes the gradient of all rows of an embedding when few activations are left.
TEST(GradientsPlan, OfAnEmbeddingAreThereTwice) {
  const std::string line = "model=gpt2-large activation_checkpointing=true batch_size=1 max_length=64 ";
  const double embedding = 4.0 * (50'257 + 1'024) * 1'280;
  const double freed = part_of(line, "activations") + part_of(line, "logits chunk");
  EXPECT_NEAR(part_of(line, "workspace"), 0.05 * part_of(line, "activations") + embedding - freed, 1e5);
  EXPECT_EQ(part_of(line + "adapter=lora", "workspace"),
            0.05 * part_of(line + "adapter=lora", "activations"));
}

TEST(OptimizerStatePlan, IsOfferedBeforeWhatChangesMore) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(
      offered("model=pythia28 optimizer=AdamW max_length=128 max_prompt_length=64"),
      (Words{"optimizer_state=bfloat16", "optimizer_state=8bit", "offload=optimizer", "max_grad_norm=null",
             "model.policy_dtype=bfloat16", "adapter=lora", "adapter.base_dtype=int8",
             "adapter.base_dtype=nf4", "optimizer=RMSprop", "optimizer=SGD"}));
  EXPECT_EQ(
      offered(
          "model=pythia28 model.policy_dtype=bfloat16 offload=reference max_length=128 max_prompt_length=64"),
      (Words{"optimizer_state=8bit", "offload=both", "max_grad_norm=null", "adapter=lora",
             "adapter.base_dtype=int8", "adapter.base_dtype=nf4", "optimizer=SGD"}));
  EXPECT_EQ(offered("model=pythia28 adapter=lora adapter.base_dtype=nf4 optimizer_state=8bit max_length=128 "
                    "max_prompt_length=64 --device cpu"),
            (Words{"model.policy_dtype=bfloat16", "optimizer=SGD"}));
  // 96.9 GB of weights in mixed precision, gradients and state do not fit on 80 GiB; with half the state they
  // do.
  const std::string line = "model=pythia69 optimizer=AdamW batch_size=4 --device a100-80gb ";
  const auto fit = find_fastest(inputs_of(line));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->overrides[0], "optimizer_state=bfloat16");
  EXPECT_TRUE(plan_of(line + fmt::format("{}", fmt::join(fit->overrides, " "))).fits());
}

TEST(OptimizerStatePlan, SgdHasNoStateToStore) {
  const Saving all = joined(savings_of(inputs_of("model=pythia28 optimizer=AdamW optimizer_state=8bit")));
  for (const std::string& word : all.overrides) {
    EXPECT_NE(word, "offload=optimizer");
    EXPECT_NE(word, "optimizer_state=8bit");
  }
  EXPECT_NE(std::ranges::find(all.overrides, "optimizer_state=null"), all.overrides.end());
}

}  // namespace
}  // namespace dpo::plan
