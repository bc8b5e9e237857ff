#include "config/key_hints.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

// Answers used for several names.
constexpr std::string_view kAttention =
    "the fastest attention is chosen for each batch; there is nothing to set";
constexpr std::string_view kPacking = "sequences are always packed; there is nothing to set";
constexpr std::string_view kTestSplit =
    "a test split belongs to a data set: a file named test beside train, or data.test_share of the prompts";
constexpr std::string_view kPartOfHub =
    "a part of a data set on the hub is written after its name: datasets=[ORG/NAME:PART]; splits are found "
    "by the names of files";
constexpr std::string_view kNoCode = "code of a repository is never run; there is nothing to set";
constexpr std::string_view kLoading =
    "data is read and tokenized once, before training; there is nothing to set";
constexpr std::string_view kCompiled = "all kernels are compiled with the program; there is nothing to set";
constexpr std::string_view kMasked =
    "only responses are trained on; data.train_on says which turns of a conversation";
constexpr std::string_view kEvaluations =
    "and is the number of examples between evaluations, or null for none";
constexpr std::string_view kUploads = "'dpo push RUN ORG/NAME' uploads a finished run";
constexpr std::string_view kDevices =
    "CUDA_VISIBLE_DEVICES=0,1 before the command chooses GPUs (for a plan: --gpus and --device)";

std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('.') + 1);  // npos + 1 is 0
}

// Returns the key that matches, if there is exactly one.
std::optional<std::string> only_key(const std::function<bool(const std::string& key)>& fits) {
  std::optional<std::string> found;
  for (const Field& field : schema()) {
    if (!fits(field.key)) continue;
    if (found) return std::nullopt;
    found = field.key;
  }
  return found;
}

// Finds a key by its last part, in any section.
std::optional<std::string> key_with_last_part(std::string_view name) {
  return only_key([&](const std::string& ours) { return last_part(ours) == name; });
}

}  // namespace

const std::vector<OtherName>& other_names() {
  static const std::vector<OtherName> names = {
      // Model and dtypes.
      {"model_name_or_path", "model.name_or_path"},
      {"model_name", "model.name_or_path"},
      {"base_model", "model.name_or_path"},
      {"tokenizer_name", "model.tokenizer_name_or_path"},
      {"tokenizer", "model.tokenizer_name_or_path"},
      {"template", "chat_template", "and is the model's own unless it is set"},
      {"torch_dtype", "model.policy_dtype"},
      {"dtype", "model.policy_dtype"},
      {"bf16", "model.fsdp_policy_mp", "and takes a dtype: model.fsdp_policy_mp=bfloat16"},
      {"pure_bf16", "model.policy_dtype", "and takes a dtype: model.policy_dtype=bfloat16"},
      {"fp16", "model.fsdp_policy_mp", "and takes a dtype; of 16 bits only bfloat16 can be trained in"},
      // Data.
      {"dataset_name", "datasets", "and is a list: datasets=[ORG/NAME]"},
      {"dataset", "datasets", "and is a list: datasets=[my.jsonl]"},
      {"dataset_path", "datasets", "and is a list: datasets=[my.jsonl]"},
      {"dataset_mixture", "datasets",
       "and is a list: datasets=[one.jsonl,ORG/NAME]; data.weights weights them"},
      {"interleave_probs", "data.weights", "and is a map of data sets: data.weights={my.jsonl: 2}"},
      {"dataset_train_split", "", kPartOfHub},
      {"dataset_test_split", "", kPartOfHub},
      {"dataset_config", "", kPartOfHub},
      {"dataset_config_name", "", kPartOfHub},
      {"dataset_split", "", kPartOfHub},
      {"dataset_subset", "", kPartOfHub},
      {"dataset_text_field", "data.columns", "and is a map of columns: data.columns={text: content}"},
      {"field_messages", "data.columns", "and is a map of columns: data.columns={messages: conversations}"},
      {"max_samples", "data.limits", "and is a map of data sets: data.limits={my.jsonl: 1000}"},
      {"max_train_samples", "data.limits", "and is a map of data sets: data.limits={my.jsonl: 1000}"},
      {"dataset_num_proc", "", kLoading},
      {"preprocessing_num_workers", "", kLoading},
      {"dataloader_num_workers", "", kLoading},
      {"dataloader_pin_memory", "", kLoading},
      {"streaming", "", kLoading},
      {"remove_unused_columns", "", "columns that dpo does not know are ignored; there is nothing to set"},
      {"assistant_only_loss", "", kMasked},
      {"completion_only_loss", "", kMasked},
      {"train_on_inputs", "", kMasked},
      {"mask_history", "data.train_on", "and is last: data.train_on=last"},
      {"train_file", "datasets", "and is a list: datasets=[my.jsonl]"},
      {"data_files", "datasets", "and is a list: datasets=[my.jsonl]"},
      {"test_file", "", kTestSplit},
      {"eval_dataset", "", kTestSplit},
      {"max_completion_length", "",
       "a response may use what its prompt leaves of max_length; max_prompt_length limits prompts"},
      {"truncation_mode", "", "the data decides which end of a long prompt is kept; there is nothing to set"},
      {"packing", "", kPacking},
      {"padding_free", "", kPacking},
      {"pad_to_sequence_len", "", kPacking},
      {"padding_side", "", kPacking},
      {"group_by_length", "", kPacking},
      {"sample_packing", "", kPacking},
      {"max_seq_length", "max_length"},
      {"max_seq_len", "max_length"},
      {"model_max_length", "max_length"},
      {"sequence_len", "max_length"},
      {"cutoff_len", "max_length"},
      {"val_set_size", "data.test_share", "and is a share of the prompts"},
      {"test_size", "data.test_share", "and is a share of the prompts"},
      // Duration and batches.
      {"num_train_epochs", "n_epochs", "and is a whole number"},
      {"num_epochs", "n_epochs", "and is a whole number"},
      {"epochs", "n_epochs", "and is a whole number"},
      {"max_steps", "n_examples", "and counts examples instead of updates: max_steps * batch_size"},
      {"train_batch_size", "batch_size", "and counts the examples of an update on all devices"},
      {"per_device_train_batch_size", "batch_size",
       "and counts the examples of an update on all devices: per_device_train_batch_size * devices * "
       "gradient_accumulation_steps"},
      {"micro_batch_size", "batch_size",
       "and counts the examples of an update on all devices: micro_batch_size * devices * "
       "gradient_accumulation_steps"},
      {"per_device_eval_batch_size", "eval_batch_size", "and counts examples on all devices"},
      {"gradient_checkpointing", "activation_checkpointing"},
      {"use_gradient_checkpointing", "activation_checkpointing"},
      {"enable_activation_checkpointing", "activation_checkpointing"},
      {"reshard_after_forward", "fsdp_reshard", "and is pass, update or never"},
      {"fsdp_reshard_after_forward", "fsdp_reshard", "and is pass, update or never"},
      {"auto_find_batch_size", "", "'dpo plan ... --fit' finds the settings with which a batch fits"},
      {"torch_compile", "", kCompiled},
      {"compile", "", kCompiled},
      {"use_liger_kernel", "", kCompiled},
      {"trust_remote_code", "", kNoCode},
      {"random_state", "seed"},
      {"flash_attn", "", kAttention},
      {"flash_attention", "", kAttention},
      {"attn_implementation", "", kAttention},
      // The optimizer.
      {"learning_rate", "lr"},
      {"lr_scheduler_type", "lr_schedule", "and is constant, linear or cosine"},
      {"lr_scheduler", "lr_schedule", "and is constant, linear or cosine"},
      {"warmup_ratio", "warmup_steps", "and is a number of updates, not a share of them"},
      {"optim", "optimizer",
       "and is RMSprop, Adam, AdamW, SGD or Adafactor; optimizer_state=8bit stores the state in 8 bits"},
      {"adam_beta1", "optimizer_betas", "and has both: optimizer_betas=[0.9,0.999]"},
      {"adam_beta2", "optimizer_betas", "and has both: optimizer_betas=[0.9,0.999]"},
      {"adam_epsilon", "optimizer_eps"},
      {"gradient_clipping", "max_grad_norm"},
      {"max_norm", "max_grad_norm"},
      {"clip_grad_norm", "max_grad_norm"},
      // The loss.
      {"loss_type", "loss.name", "and is chosen with its settings: loss=dpo (TRL's sigmoid), loss=ipo, ..."},
      {"pref_loss", "loss.name",
       "and is chosen with its settings: loss=dpo (LLaMA-Factory's sigmoid), loss=ipo, ..."},
      {"rl", "loss.name", "and is chosen with its settings: loss=dpo, loss=ipo, ..."},
      {"stage", "loss.name", "and is chosen with its settings: loss=sft, then loss=dpo"},
      {"pref_beta", "loss.beta"},
      {"dpo_beta", "loss.beta"},
      {"rl_beta", "loss.beta"},
      {"orpo_alpha", "loss.beta"},
      {"kto_desirable_weight", "loss.desirable_weight"},
      {"kto_undesirable_weight", "loss.undesirable_weight"},
      {"f_divergence_type", "loss.divergence"},
      {"rpo_alpha", "loss.alpha"},
      {"pref_ftx", "loss.alpha"},
      {"ld_alpha", "loss.length_alpha"},
      {"simpo_gamma", "loss.gamma"},
      {"ref_model", "model.archive", "which policy and reference both start from"},
      {"ref_model_name_or_path", "model.archive", "which policy and reference both start from"},
      {"precompute_ref_log_probs", "reference", "and is live, cached or auto: reference=cached"},
      // Adapters.
      {"use_peft", "adapter.name", "and is chosen with its settings: adapter=lora"},
      {"peft", "adapter.name", "and is chosen with its settings: adapter=lora"},
      {"use_lora", "adapter.name", "and is chosen with its settings: adapter=lora"},
      {"lora", "adapter.name", "and is chosen with its settings: adapter=lora"},
      {"finetuning_type", "adapter.name",
       "and is chosen with its settings: adapter=lora, or adapter=none for all weights"},
      {"lora_r", "adapter.r"},
      {"rank", "adapter.r"},
      {"lora_rank", "adapter.r"},
      {"lora_alpha", "adapter.alpha"},
      {"lora_dropout", "adapter.dropout"},
      {"lora_target_modules", "adapter.targets"},
      {"lora_target", "adapter.targets"},
      {"lora_modules_to_save", "adapter.modules_to_save"},
      {"target_modules", "adapter.targets"},
      {"lora_target_linear", "adapter.targets", "and is a list: adapter.targets=[all-linear]"},
      {"use_dora", "adapter.dora"},
      {"use_rslora", "adapter.rslora"},
      {"load_in_4bit", "adapter.base_dtype", "and takes a dtype: adapter=lora adapter.base_dtype=nf4"},
      {"quantization_bit", "adapter.base_dtype", "and takes a dtype: adapter=lora adapter.base_dtype=nf4"},
      {"load_in_8bit", "adapter.base_dtype", "and takes a dtype: adapter=lora adapter.base_dtype=int8"},
      // Files and reports.
      {"output_dir", "local_run_dir"},
      {"overwrite_output_dir", "overwrite"},
      {"logging_dir", "tensorboard", "and is true or false; the files are in RUN/tensorboard"},
      {"metric_for_best_model", "best_metric", "and is loss/eval, rewards_eval/accuracies or another"},
      {"load_best_model_at_end", "best_metric",
       "which points RUN/BEST at the best checkpoint: best_metric=loss/eval"},
      {"greater_is_better", "best_metric", "and knows which values are better"},
      {"disable_tqdm", "", "--quiet prints only warnings and errors"},
      {"eval_on_start", "do_first_eval"},
      {"evals_per_epoch", "eval_every", "and is the number of examples between evaluations"},
      {"saves_per_epoch", "save_every", "and is the number of examples between checkpoints"},
      {"save_only_model", "", "checkpoints hold all that a run needs to continue; keep_last limits them"},
      {"run_name", "exp_name"},
      {"resume_from_checkpoint", "resume", "and is auto or a folder: resume=auto"},
      {"eval_strategy", "eval_every", kEvaluations},
      {"evaluation_strategy", "eval_every", kEvaluations},
      {"save_strategy", "save_every",
       "and is the number of examples between checkpoints, or null for those of eval_every"},
      {"generate_during_eval", "sample_during_eval"},
      {"push_to_hub", "", kUploads},
      {"hub_model_id", "", kUploads},
      {"eval_steps", "eval_every", "and counts examples instead of updates: eval_steps * batch_size"},
      {"save_steps", "save_every", "and counts examples instead of updates: save_steps * batch_size"},
      {"save_total_limit", "keep_last"},
      {"logging_steps", "minimum_log_interval_secs",
       "and is the time between two logged updates, in seconds"},
      {"report_to", "wandb.enabled",
       "for Weights & Biases; tensorboard, mlflow.tracking_uri, trackio.enabled and swanlab.enabled are the "
       "others"},
      {"wandb_name", "exp_name"},
      {"wandb_project", "wandb.project"},
      {"wandb_entity", "wandb.entity"},
      // Several devices.
      {"fsdp", "trainer", "and is chosen by name: trainer=FSDPTrainer"},
      {"deepspeed", "trainer", "and is chosen by name: trainer=FSDPTrainer"},
      {"fsdp_config", "trainer", "and is chosen by name: trainer=FSDPTrainer"},
      {"ddp_timeout", "rank_timeout_secs"},
      {"ddp_find_unused_parameters", "",
       "gradients are reduced as they are complete; there is nothing to set"},
      {"n_gpus", "", kDevices},
      {"gpus", "", kDevices},
      {"device", "", kDevices},
      {"tensor_parallel_size", "mesh.tensor", "with trainer=TensorParallelTrainer"},
  };
  return names;
}

std::string did_you_mean_key(std::string_view key) {
  const std::string_view name = last_part(key);
  if (const auto other = std::ranges::find(other_names(), name, &OtherName::theirs);
      other != other_names().end())
    return other->ours.empty() ? fmt::format("; {}", other->difference)
                               : fmt::format("; it is called '{}' here{}{}", other->ours,
                                             other->difference.empty() ? "" : ", ", other->difference);
  auto found = key_with_last_part(name);
  if (!found) found = only_key([&](const std::string& ours) { return ours.starts_with(key); });
  if (found) return fmt::format("; did you mean '{}'?", *found);
  return did_you_mean(key, all_keys());
}

std::string did_you_mean_key_of_option(std::string_view option, std::string_view value) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  const std::size_t equals = option.find('=');
  if (equals != option.npos) value = option.substr(equals + 1);
  std::string name(option.substr(0, equals));
  std::ranges::replace(name, '-', '_');
  constexpr std::string_view kHow = "KEY=VALUE, without dashes";
  std::optional<std::string> key;
  if (const auto other = std::ranges::find(other_names(), name, &OtherName::theirs);
      other == other_names().end())
    key = find_field(name) || is_group(name) ? name : key_with_last_part(name);
  else if (other->ours.empty())
    return did_you_mean_key(name);
  else if (other->difference.empty())
    key = other->ours;
  else
    return fmt::format("{}; keys are written {}", did_you_mean_key(name), kHow);
  return key ? fmt::format("; write {}={} ({})", *key, value.empty() ? "VALUE" : value, kHow) : "";
}

}  // namespace dpo::config
