// Compares planned times with measured ones (docs/benchmarks.md).
#include <gtest/gtest.h>

#include "plan/timing.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

// An update of 64 examples measured on an H200 (docs/benchmarks.md), and the allowed error of the plan.
struct MeasuredUpdate {
  const char* settings;
  double seconds;
};

Inputs measured_inputs(const MeasuredUpdate& row, const std::string& loss = "loss=dpo loss.beta=0.1") {
  return inputs_of("model=blank_model optimizer=AdamW batch_size=64 --device h200 " + loss +
                   " model.fsdp_policy_mp=bfloat16 model.name_or_path=" + row.settings);
}

void expect_as_measured(const Inputs& in, const MeasuredUpdate& row) {
  EXPECT_NEAR(make_plan(in).timing.update / row.seconds, 1, 0.1) << row.settings;
}

TEST(MeasuredTiming, StepsOfMeasuredRuns) {
  for (const MeasuredUpdate& row : std::initializer_list<MeasuredUpdate>{
           {"EleutherAI/pythia-2.8b optimizer=RMSprop reference=live", 0.490},
           {"EleutherAI/pythia-2.8b optimizer=RMSprop reference=cached", 0.366},
           {"EleutherAI/pythia-2.8b optimizer=RMSprop reference=live fp8=true", 0.396},
           {"meta-llama/Llama-3.2-1B reference=live", 0.2064},
           {"meta-llama/Llama-3.2-1B reference=cached", 0.1535},
           {"meta-llama/Llama-3.2-1B reference=live fp8=true", 0.1755},
           {"Qwen/Qwen3-1.7B reference=live", 0.3365},
           {"EleutherAI/pythia-410m reference=live", 0.0789},
           {"EleutherAI/pythia-160m reference=live", 0.0288},
           {"EleutherAI/pythia-70m reference=live", 0.01275},
           {"meta-llama/Llama-3.1-8B reference=live model.policy_dtype=bfloat16", 1.298},
       })
    expect_as_measured(measured_inputs(row), row);
}

// These runs were measured with earlier versions, before the present kernels for attention and norms.
TEST(MeasuredTiming, StepsOfRunsOfEarlierVersions) {
  for (const MeasuredUpdate& row : std::initializer_list<MeasuredUpdate>{
           {"meta-llama/Llama-3.2-1B reference=live optimizer_state=8bit", 0.2343},
           {"meta-llama/Llama-3.1-8B reference=live adapter=lora adapter.base_dtype=nf4", 1.103},
           {"meta-llama/Llama-3.1-8B reference=live adapter=lora adapter.base_dtype=nf4 "
            "activation_checkpointing=true",
            1.448},
           {"allenai/OLMoE-1B-7B-0924 optimizer=RMSprop reference=cached", 0.346},
           {"meta-llama/Llama-3.2-1B reference=live adapter=lora", 0.217},
           {"meta-llama/Llama-3.1-8B reference=live adapter=lora", 1.14},
           {"meta-llama/Llama-3.1-8B reference=live adapter=lora activation_checkpointing=true", 1.49},
       })
    expect_as_measured(measured_inputs(row), row);
}

// The sequences have 1,024 tokens, all scored but the first.
TEST(MeasuredTiming, StepsOfMeasuredFineTuning) {
  for (const MeasuredUpdate& row : std::initializer_list<MeasuredUpdate>{
           {"Qwen/Qwen2.5-0.5B gradient_accumulation_steps=2 max_length=1024", 0.458},
           {"Qwen/Qwen2.5-1.5B gradient_accumulation_steps=2 max_length=1024", 1.164},
           {"Qwen/Qwen2.5-7B gradient_accumulation_steps=8 max_length=1024 model.policy_dtype=bfloat16",
            4.68},
       }) {
    Inputs in = measured_inputs(row, "loss=sft");
    in.lengths = fixed_lengths(1, 1023);
    expect_as_measured(in, row);
  }
}

// The prompts have 1,500 tokens, the responses 135.
TEST(MeasuredTiming, StepsOfMeasuredRunsWithLongPrompts) {
  const auto expect = [](const std::string& loss, int responses, const MeasuredUpdate& row) {
    Inputs in = measured_inputs(
        row, loss + " loss.beta=0.1 gradient_accumulation_steps=4 max_length=2048 max_prompt_length=1600");
    in.lengths = fixed_lengths(1500, 135);
    in.lengths.train_rankings = in.lengths.train_pairs;
    in.lengths.train_ranked = responses * in.lengths.train_rankings;
    in.lengths.longest_ranking = responses;
    expect_as_measured(in, row);
  };
  expect("loss=dpo", 2, {"meta-llama/Llama-3.2-1B reference=live", 1.712});
  expect("loss=dpo", 2, {"meta-llama/Llama-3.2-1B reference=cached", 1.300});
  expect("loss=plackett_luce", 4, {"meta-llama/Llama-3.2-1B reference=live", 2.092});
}

}  // namespace
}  // namespace dpo::plan
