#include "config/value_hints.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.h"

namespace dpo::config {
namespace {

// Values of other trainers. `keys` and `names` are space-separated words; `answer` is a sentence in which {}
// is the key.
struct OtherValues {
  std::string_view keys, names, answer;
};

constexpr std::string_view kComputed = "model.policy_dtype model.fsdp_policy_mp fsdp_reduce_dtype";
constexpr std::string_view kStored =
    "model.reference_dtype --dtype";  // keys and options without loss scaling
constexpr std::string_view kNf4 = "write adapter=lora adapter.base_dtype=nf4";
constexpr std::string_view kInt8 = "write adapter=lora adapter.base_dtype=int8";
constexpr std::string_view kReinforcement =
    "it learns from rewards of texts that it generates while it trains, which dpo does not do; loss=dpo, "
    "loss=kto and others learn from preferences that are in the data";

constexpr OtherValues kOtherValues[] = {
    // Losses: values of TRL's loss_type, LLaMA-Factory's pref_loss and stage, and axolotl's rl.
    {"loss.name", "sigmoid", "TRL's sigmoid is loss=dpo"},
    {"loss.name", "dpoloss dpo_loss dpotrainer", "write loss=dpo"},
    {"loss.name", "cdpo conservative_dpo", "write loss=dpo loss.label_smoothing=0.1"},
    {"loss.name", "rpo", "write loss=dpo loss.alpha=1"},
    {"loss.name", "ld_dpo", "write loss=dpo loss.length_alpha=0.5"},
    {"loss.name", "rdpo robust_dpo", "write loss=robust loss.label_smoothing=0.1"},
    {"loss.name", "rso slic", "that is loss=hinge"},
    {"loss.name", "kto_pair", "write loss=kto, which takes pairs as well as labelled responses"},
    {"loss.name", "bco", "write loss=bco_pair"},
    {"loss.name", "aot_unpaired apo_zero_unpaired",
     "unpaired losses other than loss=kto are not supported; for pairs, write loss=aot or loss=apo_zero"},
    {"loss.name", "sppo", "write loss=sppo_hard"},
    {"loss.name", "nca", "write loss=nca_pair"},
    {"loss.name", "exo", "write loss=exo_pair"},
    {"loss.name", "apo", "write loss=apo_zero or loss=apo_down"},
    {"loss.name", "ranking pl plackett", "write loss=plackett_luce"},
    {"loss.name", "nll ce cross_entropy instruct sfttrainer", "write loss=sft"},
    {"loss.name", "grpo dr_grpo gspo dapo cispo ppo rloo reinforce reinforce++ online_dpo xpo nash_md gkd",
     kReinforcement},
    {"loss.name", "reward rm reward_model prm",
     "reward models are not trained here; a policy trained with loss=dpo is one itself, and 'dpo score "
     "MODEL FILE --reference MODEL' prints its rewards"},
    // Adapters.
    {"adapter.name", "qlora", kNf4},
    {"adapter.name", "dora", "write adapter=lora adapter.dora=true"},
    {"adapter.name", "qdora", "write adapter=lora adapter.dora=true adapter.base_dtype=nf4"},
    {"adapter.name", "rslora", "write adapter=lora adapter.rslora=true"},
    {"adapter.name", "full null false no", "write adapter=none, which trains all weights"},
    {"adapter.name", "peft true yes", "write adapter=lora"},
    {"adapter.name",
     "adalora ia3 vera oft boft loha lokr loftq pissa loraplus prefix_tuning prompt_tuning freeze galore",
     "the only kind of adapter is LoRA: adapter=lora"},
    {"adapter.base_dtype", "4 4bit fp4 int4 bnb_4bit bitsandbytes",
     "write {}=nf4, whose numbers have 4 bits"},
    {"adapter.base_dtype", "8 8bit bnb_8bit", "write {}=int8"},
    {"adapter.base_dtype", "gptq awq hqq aqlm mxfp4 eetq", "the only format of 4 bits is {}=nf4"},
    // Optimizers and schedules: values of transformers' optim and lr_scheduler_type.
    {"optimizer",
     "adamw_torch adamw_torch_fused adamw_hf adamw_fused adamw_apex_fused adamw_torch_xla "
     "adamw_anyprecision",
     "write optimizer=AdamW"},
    {"optimizer", "adamw_8bit adamw_bnb_8bit paged_adamw_8bit adamw_torch_8bit adamw_torch_4bit",
     "write optimizer=AdamW optimizer_state=8bit"},
    {"optimizer", "adam_8bit adam8bit paged_adam_8bit", "write optimizer=Adam optimizer_state=8bit"},
    {"optimizer", "adamw8bit pagedadamw8bit", "write optimizer=AdamW optimizer_state=8bit"},
    {"optimizer", "paged_adamw paged_adamw_32bit pagedadamw",
     "write optimizer=AdamW; offload=optimizer keeps its state in host memory"},
    {"optimizer", "rmsprop_bnb rmsprop_bnb_32bit", "write optimizer=RMSprop"},
    {"optimizer", "rmsprop_bnb_8bit rmsprop_8bit", "write optimizer=RMSprop optimizer_state=8bit"},
    {"optimizer",
     "lion lion_8bit lion_32bit paged_lion_8bit paged_lion_32bit muon sophia lomo adalomo galore_adamw "
     "galore_adamw_8bit apollo_adamw ademamix came shampoo soap adopt grokadamw stable_adamw "
     "schedule_free_adamw schedule_free_sgd adagrad nadam radam",
     "it is not supported; optimizer=AdamW is the usual one, and optimizer_state=8bit stores its state in a "
     "quarter of the memory"},
    {"optimizer_state", "8 int8 adam8bit 4bit 4", "write {}=8bit, the smallest"},
    {"optimizer_state", "bf16", "write {}=bfloat16"},
    {"optimizer_state", "fp32 float 32bit", "write {}=float32"},
    {"lr_schedule", "constant_with_warmup", "write lr_schedule=constant, which begins with warmup_steps"},
    {"lr_schedule", "linear_with_warmup warmup_linear polynomial", "write lr_schedule=linear"},
    {"lr_schedule", "cosine_with_warmup warmup_cosine", "write lr_schedule=cosine"},
    {"lr_schedule", "cosine_with_restarts cosine_with_min_lr cosine_warmup_with_min_lr",
     "write lr_schedule=cosine, which falls to 0 once, at the end of the run"},
    {"lr_schedule", "inverse_sqrt reduce_lr_on_plateau warmup_stable_decay wsd rex one_cycle onecycle",
     "it is not supported; lr_schedule=linear and lr_schedule=cosine end at 0"},
    // Dtypes.
    {kComputed, "bf16 bfloat bfloat16", "write {}=bfloat16"},
    {kComputed, "fp32 f32 float float32 full tf32", "write {}=float32"},
    {kComputed, "fp16 f16 half float16",
     "training in float16 needs loss scaling, which dpo does not do; write {}=bfloat16"},
    {kStored, "bf16 bfloat bfloat16", "write {}=bfloat16"},
    {kStored, "fp32 f32 float float32 full", "write {}=float32"},
    {kStored, "fp16 f16 half float16", "write {}=float16"},
    {"model.policy_dtype", "auto",
     "write model.fsdp_policy_mp=auto, which chooses the dtype that is computed in"},
    {"model.reference_dtype", "auto", "write {}=null for the dtype that the policy computes in"},
    {"model.policy_dtype", "nf4 4bit int4 fp4", kNf4},
    {"model.policy_dtype", "int8 8bit", kInt8},
    {"model.policy_dtype model.fsdp_policy_mp", "fp8 float8",
     "write fp8=true, which computes the matmuls of layers in 8 bits"},
    // Trainers, which determine how devices share the work.
    {"trainer", "fsdp fsdp1 fsdp2 full_shard deepspeed zero zero2 zero3 zero_2 zero_3 zero_stage_3 sharded",
     "write trainer=FSDPTrainer, which shards weights, gradients and optimizer state over the GPUs"},
    {"trainer", "ddp distributed_data_parallel multi_gpu data_parallel zero1 no_shard replicate",
     "write trainer=FSDPTrainer mesh.shard=1 mesh.replica=GPUS, which keeps a whole model on each GPU"},
    {"trainer", "hsdp hybrid_shard", "write trainer=FSDPTrainer mesh.replica=MACHINES"},
    {"trainer", "tp tensor tensor_parallel megatron", "write trainer=TensorParallelTrainer"},
    {"trainer", "basic single naive auto no none", "write trainer=BasicTrainer"},
    {"trainer", "dpotrainer dpo", "write loss=dpo; trainer says how GPUs share the work"},
    {"trainer", "sfttrainer sft", "write loss=sft; trainer says how GPUs share the work"},
    {"trainer", "ktotrainer kto", "write loss=kto; trainer says how GPUs share the work"},
    {"trainer", "orpotrainer orpo", "write loss=orpo; trainer says how GPUs share the work"},
    {"trainer", "cpotrainer cpo", "write loss=cpo; trainer says how GPUs share the work"},
    {"trainer", "grpotrainer grpo ppotrainer ppo rlootrainer", kReinforcement},
    {"fsdp_reshard", "true yes full_shard zero3",
     "write {}=pass, which frees gathered weights after each pass"},
    {"fsdp_reshard", "false no shard_grad_op zero2",
     "write {}=update, which keeps gathered weights until the update"},
    {"fsdp_reshard", "auto", "write {}=null, which lets the plan choose"},
    // Checkpoints, references and memory.
    {"best_metric", "eval_loss loss eval", "write {}=loss/eval"},
    {"best_metric", "eval_rewards/accuracies rewards/accuracies eval_accuracy accuracy",
     "write {}=rewards_eval/accuracies"},
    {"best_metric", "eval_rewards/margins rewards/margins margins", "write {}=rewards_eval/margins"},
    {"best_metric", "eval_rewards/chosen rewards/chosen", "write {}=rewards_eval/chosen"},
    {"reference", "precompute precomputed", "write reference=cached"},
    {"reference", "none null", "loss=orpo, loss=simpo and loss=cpo need no reference"},
    {"offload", "cpu true all", "write offload=both"},
};

// Normalizes a name, because names are written in many ways: AdamW_8bit, adamw-8bit, torch.bfloat16.
std::string as_listed(std::string_view value) {
  constexpr std::string_view kTorch = "torch.";
  if (value.starts_with(kTorch)) value.remove_prefix(kTorch.size());
  std::string name;
  for (const char c : value)
    name += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

std::string hint_for_value(std::string_view key, std::string_view value,
                           const std::vector<std::string>& names) {
  const std::string name = as_listed(value);
  for (const OtherValues& other : kOtherValues)
    if (has_word(other.keys, key) && has_word(other.names, name))
      return "; " + fmt::format(fmt::runtime(other.answer), key);
  return did_you_mean(value, names);
}

}  // namespace dpo::config
