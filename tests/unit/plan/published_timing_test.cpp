// Compares planned speeds with those that others published for FSDP over several GPUs (docs/fsdp-rule.md).
#include <gtest/gtest.h>

#include "test_plans.h"

namespace dpo::plan {
namespace {

struct PublishedSpeed {
  const char* settings;
  std::int64_t gpus, machines;
  std::int64_t sequences;    // per GPU
  double length;             // tokens per sequence
  double tokens_per_second;  // per GPU
  double tolerance;          // 15 % if the settings are fully published, otherwise 25 %
};

// Selective activation checkpointing recomputes about half of the layers.
TEST(PublishedTiming, SpeedOfTrainingOverManyGpus) {
  for (const PublishedSpeed& row : std::initializer_list<PublishedSpeed>{
           // torchtitan, 64 A100 (2024)
           {"meta-llama/Llama-3.1-8B activation_checkpointing=16 --device a100-80gb", 8, 8, 1, 8192, 2938,
            0.15},
           // PyTorch and IBM, 128 A100 (2024); the length is assumed
           {"meta-llama/Llama-2-7b-hf --device a100-80gb", 8, 16, 2, 4096, 3700, 0.25},
           // torchtitan, 8 H100 limited to 500 W, compiled (2024)
           {"meta-llama/Llama-3.1-8B activation_checkpointing=16 --device h100", 8, 1, 2, 8192, 6667, 0.25},
           {"meta-llama/Llama-3.1-8B activation_checkpointing=16 fp8=true --device h100", 8, 1, 2, 8192, 8532,
            0.25},
           // torchtitan, 32 H200 (2025)
           {"meta-llama/Llama-3.1-8B fp8=true --device h200", 8, 4, 2, 8192, 10938, 0.25},
       }) {
    const std::int64_t ranks = row.gpus * row.machines;
    Inputs in =
        inputs_of(fmt::format("model=blank_model loss=sft trainer=FSDPTrainer fsdp_reshard=pass "
                              "optimizer=AdamW model.fsdp_policy_mp=bfloat16 "
                              "model.name_or_path={} batch_size={} max_length={} --gpus {} --nodes {}",
                              row.settings, ranks * row.sequences, row.length, row.gpus, row.machines));
    in.lengths = fixed_lengths(1, row.length - 1);
    const double planned = make_plan(in).timing.tokens_per_second / static_cast<double>(ranks);
    EXPECT_NEAR(planned / row.tokens_per_second, 1, row.tolerance) << row.settings;
  }
}

}  // namespace
}  // namespace dpo::plan
