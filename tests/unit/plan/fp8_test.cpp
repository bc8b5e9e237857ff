// Tests plans of matmuls in 8-bit floats.
#include <gtest/gtest.h>

#include "plan/passes.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

const std::string kFp8 = kDpo + "model.fsdp_policy_mp=bfloat16 fp8=true --device h200 ";

TEST(Fp8Rule, SaysWhereItCannotWork) {
  expect_finding(kFp8 + "model.fsdp_policy_mp=null", "fp8", Verdict::error,
                 "the policy is computed in float32");
  expect_finding(kFp8 + "model.reference_dtype=float16", "fp8", Verdict::error,
                 "the reference is computed in float16");
  expect_finding(kFp8 + "adapter=lora adapter.base_dtype=int8", "fp8", Verdict::error,
                 "adapter.base_dtype=int8");
  expect_finding(kFp8 + "trainer=TensorParallelTrainer --gpus 2", "fp8", Verdict::error,
                 "does not work with tensor parallelism");
  expect_finding(kFp8 + "model.name_or_path=mistralai/Mixtral-8x7B-v0.1", "fp8", Verdict::error,
                 "is for dense models");
  expect_finding(
      kFp8 + "--device a100-80gb", "fp8", Verdict::error,
      "needs a GPU of compute capability 8.9 (Ada, Hopper) or newer; a100-80gb has no matmuls in 8 bits");
}

// Errors that no setting fixes come first, because another dtype would not help.
TEST(Fp8Rule, NamesWhatCannotBeFixedFirst) {
  const std::string float32 = kFp8 + "model.fsdp_policy_mp=null ";
  expect_finding(float32 + "--device a100-80gb", "fp8", Verdict::error, "compute capability 8.9");
  expect_finding(float32 + "model.name_or_path=allenai/OLMoE-1B-7B-0924", "fp8", Verdict::error,
                 "is for dense models");
  expect_finding(float32 + "adapter=lora adapter.base_dtype=int8", "fp8", Verdict::error,
                 "adapter.base_dtype=int8");
  expect_finding(float32 + "trainer=TensorParallelTrainer --gpus 2", "fp8", Verdict::error,
                 "tensor parallelism");
}

TEST(Fp8Rule, OffersWhatMakesItWork) {
  const std::vector<std::string> off = {"fp8=false"};
  const auto remedies = [](const std::string& settings) {
    const Plan plan = plan_of(kFp8 + settings);
    std::vector<std::vector<std::string>> all;
    for (const Remedy& remedy : plan.find("fp8")->remedies) all.push_back(remedy.overrides);
    return all;
  };
  using Remedies = std::vector<std::vector<std::string>>;
  EXPECT_EQ(remedies("--device a100-80gb"), (Remedies{off}));
  EXPECT_EQ(remedies("model.name_or_path=allenai/OLMoE-1B-7B-0924"), (Remedies{off}));
  EXPECT_EQ(remedies("model.fsdp_policy_mp=null"), (Remedies{{"model.fsdp_policy_mp=bfloat16"}, off}));
  EXPECT_EQ(remedies("model.fsdp_policy_mp=null model.reference_dtype=float16"),
            (Remedies{{"model.fsdp_policy_mp=bfloat16", "model.reference_dtype=null"}, off}));
  EXPECT_EQ(remedies("model.reference_dtype=float16"), (Remedies{{"model.reference_dtype=null"}, off}));
  const std::string split = "batch_size=4 --gpus 2 ";
  EXPECT_EQ(remedies(split + "trainer=TensorParallelTrainer"), (Remedies{{"trainer=FSDPTrainer"}, off}));
  EXPECT_EQ(remedies(split + "trainer=FSDPTrainer mesh.tensor=2"), (Remedies{{"mesh.tensor=null"}, off}));
  EXPECT_EQ(remedies(split + "trainer=TensorParallelTrainer model.fsdp_policy_mp=null"),
            (Remedies{{"trainer=FSDPTrainer", "model.fsdp_policy_mp=bfloat16"}, off}));
}

TEST(Fp8Rule, SaysWhatItDoes) {
  expect_finding(kFp8, "fp8", Verdict::ok, "100 % of the layers' parameters");
  expect_finding(kFp8 + "trainer=FSDPTrainer --gpus 4", "fp8", Verdict::ok, "1.2 times as fast");
  expect_finding(kFp8 + "adapter=lora --device l40s", "fp8", Verdict::ok,
                 "8-bit floats; its time was measured on an H200 only");
  expect_finding(kFp8 + "--device cpu", "fp8", Verdict::hint, "slower");
  // Losses without a reference do not read its dtype.
  for (const std::string loss : {"loss=sft", "loss=simpo loss.beta=2 model.archive=sft"})
    expect_finding(
        "model=pythia28 fp8=true model.fsdp_policy_mp=bfloat16 model.reference_dtype=float32 "
        "--device h200 " +
            loss,
        "fp8", Verdict::ok, "8-bit floats");
  EXPECT_FALSE(plan_of(kDpo).find("fp8"));
}

// A run that is rejected is planned without 8 bits.
TEST(Fp8Time, IsThatOfTheRunWithoutItWhereItCannotWork) {
  for (const std::string settings :
       {"--device a100-80gb", "model.fsdp_policy_mp=null", "model.reference_dtype=float16",
        "adapter=lora adapter.base_dtype=int8", "trainer=TensorParallelTrainer --gpus 2",
        "model.name_or_path=allenai/OLMoE-1B-7B-0924"}) {
    const Plan refused = plan_of(kFp8 + settings), without = plan_of(kFp8 + settings + " fp8=false");
    EXPECT_EQ(verdict_of(refused, "fp8"), Verdict::error) << settings;
    EXPECT_EQ(refused.timing.update, without.timing.update) << settings;
    EXPECT_EQ(refused.timing.least_matmuls, without.timing.least_matmuls) << settings;
    EXPECT_EQ(refused.memory.total(), without.memory.total()) << settings;
  }
}

// Times a prompt of 100 tokens with responses of 50 on a device with round figures. Matmuls in bfloat16 reach
// 100 TFLOP/s, and those in 8 bits 0.8 times what the peaks' ratio of 2 would give. The memory has 1 TB/s.
Plan timed_fp8(const std::string& line) {
  Inputs in = inputs_of(line);
  in.lengths = {};
  in.lengths.name = "fixed";
  in.lengths.train_prompts = in.lengths.train_pairs = 100'000;
  in.lengths.prompt = {100};
  in.lengths.response = {50};
  in.lengths.longest_prompt = 100;
  in.lengths.longest_response = 50;
  in.machine.device = Device();
  in.machine.device.name = "round";
  in.machine.device.memory = in.machine.device.memory_bandwidth = 1e12;
  in.machine.device.bf16_flops = 200e12;
  in.machine.device.fp8_flops = 400e12;
  in.machine.device.fp32_flops = 20e12;
  in.machine.device.efficiency = 0.35;
  in.machine.device.link = in.machine.device.network = 100e9;
  return make_plan(in);
}

// The layers' matrices of Pythia-2.8B, and the sums of their inputs and outputs.
constexpr double kFp8Layers = 32, kFp8Hidden = 2560, kFp8Matrices = kFp8Layers * 12 * kFp8Hidden * kFp8Hidden;
constexpr double kFp8Inputs = kFp8Layers * (1 + 1 + 1 + 4) * kFp8Hidden,
                 kFp8Outputs = kFp8Layers * (3 + 1 + 4 + 1) * kFp8Hidden;
constexpr double kFp8Tokens = 1600;  // of 8 pairs

// Forward passes of both models and the gradient of the input are faster. The gradient of the weights is not.
TEST(Fp8Time, ThreeOfFourProductsAreFaster) {
  const std::string line =
      "model=pythia28 loss=dpo loss.beta=0.1 batch_size=8 model.fsdp_policy_mp=bfloat16 reference=live ";
  const double product = 2 * kFp8Matrices * kFp8Tokens;  // operations
  const double forward = 3 * (kFp8Tokens * kFp8Inputs + kFp8Matrices) / 1e12;
  const double backward = (3 * kFp8Tokens * kFp8Outputs + 5 * kFp8Matrices) / 1e12;
  const auto seconds = [&](const std::string& more) {
    return timed_fp8(line + more).timing.microbatch.elapsed;
  };
  EXPECT_NEAR(seconds("") - seconds("fp8=true"),
              3 * product * (1 / 100e12 - 1 / 160e12) - 2 * forward - backward, 1e-6);
  EXPECT_NEAR(seconds("activation_checkpointing=true") - seconds("activation_checkpointing=true fp8=true"),
              4 * product * (1 / 100e12 - 1 / 160e12) - 3 * forward - backward, 1e-6);
  // Frozen weights have no gradients.
  EXPECT_NEAR(seconds("adapter=lora") - seconds("adapter=lora fp8=true"),
              3 * product * (1 / 100e12 - 1 / 160e12) - 2 * forward - backward, 1e-6);
  EXPECT_NEAR(timed_fp8(line).timing.least_matmuls - timed_fp8(line + "fp8=true").timing.least_matmuls,
              3 * product * (1 / 200e12 - 1 / 400e12), 1e-6);
}

// The operands of one matmul are the MLP's matrix and 4 * hidden elements per token.
TEST(Fp8Memory, OfOneProduct) {
  const std::string line =
      "model=pythia28 loss=dpo loss.beta=0.1 batch_size=8 model.fsdp_policy_mp=bfloat16 ";
  const auto in_use = [](const Plan& plan) {
    for (const MemoryPart& part : plan.memory.parts)
      if (part.name == "layer in use") return part.bytes;
    return -1.0;
  };
  EXPECT_EQ(in_use(timed_fp8(line)), 0);
  EXPECT_EQ(in_use(timed_fp8(line + "fp8=true")), 4 * kFp8Hidden * kFp8Hidden + kFp8Tokens * 4 * kFp8Hidden);
}

// The rate depends on the compute capability, whatever the file says. If the file has no figure, it is twice
// the 16-bit rate.
TEST(Fp8Device, FollowsTheGpu) {
  hardware::Gpu gpu{.name = "NVIDIA Some GPU", .capability_major = 8, .capability_minor = 9};
  gpu.memory_bytes = 24'000'000'000;
  gpu.multiprocessors = 100;
  gpu.clock = 2e9;
  EXPECT_EQ(device_of(gpu).fp8_flops, 2 * device_of(gpu).bf16_flops);
  gpu.capability_minor = 6;
  EXPECT_EQ(device_of(gpu).fp8_flops, 0);
  EXPECT_EQ(load_device("h200").fp8_flops, 1979e12);
  EXPECT_EQ(load_device("a100-80gb").fp8_flops, 0);
}

}  // namespace
}  // namespace dpo::plan
