#include "config/value_hints.h"

#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

std::string problem_of(const Words& words) {
  try {
    compose({with_needed(words), {}, {}});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Returns the KEY=VALUE words at the end of a message: "...; write A=1 B=2, which".
Words advice_in(const std::string& problem) {
  constexpr std::string_view kWrite = "; write ";
  const std::size_t at = problem.find(kWrite);
  if (at == problem.npos) return {};
  std::istringstream rest(problem.substr(at + kWrite.size()));
  Words words;
  for (std::string word; rest >> word && word.find('=') != word.npos;) {
    const bool ends = word.ends_with(',') || word.ends_with(';');
    if (ends) word.pop_back();
    words.push_back(word);
    if (ends) break;
  }
  return words;
}

struct OtherValue {
  Words given;  // the last one is wrong
  Words advice;
};

// Values of TRL, transformers, peft, axolotl, LLaMA-Factory and Unsloth.
const OtherValue kOtherValues[] = {
    {{"adapter=qlora"}, {"adapter=lora", "adapter.base_dtype=nf4"}},
    {{"adapter.name=QLoRA"}, {"adapter=lora", "adapter.base_dtype=nf4"}},
    {{"adapter=dora"}, {"adapter=lora", "adapter.dora=true"}},
    {{"adapter=rslora"}, {"adapter=lora", "adapter.rslora=true"}},
    {{"adapter=full"}, {"adapter=none"}},
    {{"adapter=lora", "adapter.base_dtype=4bit"}, {"adapter.base_dtype=nf4"}},
    {{"adapter=lora", "adapter.base_dtype=8bit"}, {"adapter.base_dtype=int8"}},
    {{"optimizer=adamw_8bit"}, {"optimizer=AdamW", "optimizer_state=8bit"}},
    {{"optimizer=paged_adamw_8bit"}, {"optimizer=AdamW", "optimizer_state=8bit"}},
    {{"optimizer=adamw_torch_fused"}, {"optimizer=AdamW"}},
    {{"optimizer=paged_adamw_32bit"}, {"optimizer=AdamW"}},
    {{"optimizer=AdamW", "optimizer_state=int8"}, {"optimizer_state=8bit"}},
    {{"lr_schedule=constant_with_warmup"}, {"lr_schedule=constant"}},
    {{"lr_schedule=cosine_with_restarts"}, {"lr_schedule=cosine"}},
    {{"model.policy_dtype=bf16"}, {"model.policy_dtype=bfloat16"}},
    {{"model.policy_dtype=torch.bfloat16"}, {"model.policy_dtype=bfloat16"}},
    {{"model.policy_dtype=auto"}, {"model.fsdp_policy_mp=auto"}},
    {{"model.fsdp_policy_mp=fp16"}, {"model.fsdp_policy_mp=bfloat16"}},
    {{"model.reference_dtype=fp16"}, {"model.reference_dtype=float16"}},
    {{"fsdp_reshard=true"}, {"fsdp_reshard=pass"}},
    {{"fsdp_reshard=SHARD_GRAD_OP"}, {"fsdp_reshard=update"}},
    {{"trainer=deepspeed"}, {"trainer=FSDPTrainer"}},
    {{"trainer=zero3"}, {"trainer=FSDPTrainer"}},
    {{"trainer=FSDP"}, {"trainer=FSDPTrainer"}},
    {{"loss=dpo", "loss.beta=0.1", "trainer=DPOTrainer"}, {"loss=dpo"}},
    {{"best_metric=eval_loss"}, {"best_metric=loss/eval"}},
};

TEST(ValueHints, AnswerValuesOfOtherTrainersWithWhatWorks) {
  for (const OtherValue& other : kOtherValues) {
    const std::string problem = problem_of(other.given);
    EXPECT_EQ(advice_in(problem), other.advice) << problem;
    Words advised(other.given.begin(), other.given.end() - 1);
    advised.insert(advised.end(), other.advice.begin(), other.advice.end());
    EXPECT_EQ(problem_of(advised), "") << problem;
  }
}

TEST(ValueHints, AnswerLossesOfOtherTrainers) {
  const auto hint = [](const char* name) {
    return hint_for_value("loss.name", name, {"dpo", "orpo", "cpo"});
  };
  EXPECT_EQ(hint("sigmoid"), "; TRL's sigmoid is loss=dpo");
  EXPECT_EQ(hint("kto_pair"), "; write loss=kto, which takes pairs as well as labelled responses");
  for (const char* name : {"grpo", "ppo", "rloo"})
    EXPECT_NE(hint(name).find("learns from rewards of texts that it generates"), std::string::npos) << name;
  EXPECT_NE(hint("reward").find("reward models are not trained here"), std::string::npos);
  EXPECT_EQ(hint("dop"), "; did you mean 'dpo'?");
  EXPECT_EQ(hint("wpo"), "");
  EXPECT_NE(problem_of({"loss=grpo"}).find("(command line: loss=grpo); it learns from rewards"),
            std::string::npos);
}

TEST(ValueHints, SayWhatThereIsNot) {
  EXPECT_NE(problem_of({"optimizer=lion"}).find("; it is not supported; optimizer=AdamW is"),
            std::string::npos);
  EXPECT_NE(problem_of({"optimizer=muon"}).find("; it is not supported; optimizer=AdamW is"),
            std::string::npos);
  EXPECT_NE(problem_of({"adapter=ia3"}).find("; the only kind of adapter is LoRA: adapter=lora"),
            std::string::npos);
}

}  // namespace
}  // namespace dpo::config
