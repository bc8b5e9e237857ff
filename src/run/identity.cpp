#include "run/identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace dpo::run {
namespace {

constexpr const char* kReferenceWeights = "reference";
constexpr const char* kBaseWeights = "base";
constexpr const char* kExamples = "training data";
constexpr const char* kUpdates = "number of updates";
constexpr const char* kAdapter = "adapter.name";

// The likely cause, if the name alone does not say it.
std::string cause_of(const std::string& key) {
  if (key == kReferenceWeights || key == kBaseWeights)
    return "; the model that the run started from (model.archive or model.name_or_path) has changed: if "
           "LATEST now points elsewhere, give the checkpoint itself (step-N)";
  if (key == kExamples)
    return "; the data, its columns, its split, the maximum lengths, or for conversations the chat template "
           "or "
           "the date that it writes have changed";
  if (key == kUpdates)
    return "; n_epochs, n_examples or the data have changed, and lr_schedule depends on the length of the "
           "run";
  return "";
}

// Of a run without an adapter all are null: older checkpoints do not name them.
Identity identity_of_adapter(const config::AdapterConfig& adapter) {
  Identity identity = {
      {kAdapter, name_of(adapter.name)},
      {"adapter.r", std::to_string(adapter.r)},
      {"adapter.alpha", fmt::format("{}", adapter.alpha)},
      {"adapter.dropout", fmt::format("{}", adapter.dropout)},
      {"adapter.targets", fmt::format("[{}]", fmt::join(adapter.targets, ", "))},
      {"adapter.rslora", fmt::format("{}", adapter.rslora)},
      {"adapter.dora", fmt::format("{}", adapter.dora)},
      {"adapter.modules_to_save", fmt::format("[{}]", fmt::join(adapter.modules_to_save, ", "))},
      {"adapter.rank_pattern", fmt::format("{}", adapter.rank_pattern)},
      {"adapter.alpha_pattern", fmt::format("{}", adapter.alpha_pattern)},
      {"adapter.base_dtype", adapter.base_dtype ? name_of(*adapter.base_dtype) : "null"}};
  if (adapter.name == config::Adapter::none)
    for (auto& [key, value] : identity) value = "null";
  return identity;
}

std::string entry_of(const Identity& identity, const char* key) {
  const auto found = identity.find(key);
  return found == identity.end() ? "null" : found->second;
}

// Null if it is stored as the weights are, whether or not that was asked for.
std::string text_of_state(const config::RunConfig& config) {
  if (!config.optimizer_state || name_of(*config.optimizer_state) == name_of(config.model.policy_dtype))
    return "null";
  return name_of(*config.optimizer_state);
}

std::string text_of_number(const std::optional<double>& number) {
  return number ? fmt::format("{}", *number) : "null";
}

}  // namespace

Identity identity_of(const config::RunConfig& config, const std::string& tokenizer,
                     const data::Examples& train, std::int64_t updates) {
  const std::string betas =
      config.optimizer_betas ? fmt::format("[{}]", fmt::join(*config.optimizer_betas, ", ")) : "null";
  const bool is_constant = config.lr_schedule == config::Schedule::constant;
  Identity identity = {{"model.name_or_path", config.model.name_or_path},
                       {"model.policy_dtype", name_of(config.model.policy_dtype)},
                       {"model.fsdp_policy_mp", config::name_of(config.model.fsdp_policy_mp)},
                       {"fp8", fmt::format("{}", config.fp8)},
                       {"model.router_aux_loss_coef", text_of_number(config.model.router_aux_loss_coef)},
                       {"tokenizer", tokenizer},
                       {"loss.name", name_of(config.loss.name)},
                       {"loss.beta", fmt::format("{}", config.loss.beta)},
                       {"loss.label_smoothing", fmt::format("{}", config.loss.label_smoothing)},
                       {"loss.reference_free", fmt::format("{}", config.loss.reference_free)},
                       {"loss.divergence", name_of(config.loss.divergence)},
                       {"loss.length_normalize", fmt::format("{}", config.loss.length_normalize)},
                       {"loss.length_alpha", fmt::format("{}", config.loss.length_alpha)},
                       {"loss.alpha", fmt::format("{}", config.loss.alpha)},
                       {"loss.gamma", fmt::format("{}", config.loss.gamma)},
                       {"loss.temperature", fmt::format("{}", config.loss.temperature)},
                       {"loss.desirable_weight", fmt::format("{}", config.loss.desirable_weight)},
                       {"loss.undesirable_weight", fmt::format("{}", config.loss.undesirable_weight)},
                       {"datasets", fmt::format("{}", fmt::join(config.datasets, ","))},
                       {kExamples, fmt::format("{} examples with SHA-256 {}", train.size(),
                                               data::digest_of(train).substr(0, 16))},
                       {"batch_size", std::to_string(config.batch_size)},
                       {"data_seed", std::to_string(config.data_seed)},
                       {"seed", std::to_string(config.seed)},
                       {"optimizer", name_of(config.optimizer)},
                       {"optimizer_betas", betas},
                       {"optimizer_eps", text_of_number(config.optimizer_eps)},
                       {"optimizer_state", text_of_state(config)},
                       {"weight_decay", text_of_number(config.weight_decay)},
                       {"lr", fmt::format("{}", config.lr)},
                       {"lr_schedule", name_of(config.lr_schedule)},
                       {kUpdates, is_constant ? "null" : std::to_string(updates)},
                       {"max_grad_norm", text_of_number(config.max_grad_norm)},
                       {"max_length", std::to_string(config.max_length)},
                       {"max_prompt_length", std::to_string(config.max_prompt_length)},
                       {"warmup_steps", std::to_string(config.warmup_steps)}};
  identity.merge(identity_of_adapter(config.adapter));
  return identity;
}

Identity identity_of_base(const std::string& fingerprint) { return {{kBaseWeights, fingerprint}}; }

void check_base_weights(const Identity& saved, const std::string& fingerprint,
                        const config::RunConfig& config, const std::filesystem::path& adapter) {
  const std::string of_adapter = entry_of(saved, kBaseWeights);
  if (of_adapter == fingerprint || of_adapter == "null" ||
      entry_of(saved, "model.policy_dtype") != name_of(config.model.policy_dtype) ||
      entry_of(saved, "model.fsdp_policy_mp") != config::name_of(config.model.fsdp_policy_mp))
    return;
  throw UserError(fmt::format(
      "model.archive: {} was trained over other weights than those of model.name_or_path={}: give the model "
      "that it was trained over, or train a new adapter",
      adapter.string(), config.model.name_or_path));
}

Identity identity_of_reference(const std::string& dtype, const std::string& fingerprint) {
  return {{"model.reference_dtype", dtype}, {kReferenceWeights, fingerprint}};
}

void check_identity(const Identity& saved, const Identity& now, const std::filesystem::path& checkpoint) {
  std::vector<std::string> problems;
  const bool has_other_adapter =
      now.contains(kAdapter) && entry_of(saved, kAdapter) != entry_of(now, kAdapter);
  for (const auto& [key, value] : now) {
    if (has_other_adapter && key.starts_with("adapter.") && key != kAdapter)
      continue;  // one reason is enough
    const auto found = saved.find(key);
    // Saved before the key existed, and what it does was not there.
    if (found == saved.end() && (value == "null" || value == "false")) continue;
    if (found == saved.end())
      problems.push_back(fmt::format(
          "resume: {} does not record {}: it was written by an older dpo, so dpo cannot tell whether this is "
          "the same run",
          checkpoint.string(), key));
    else if (found->second != value)
      problems.push_back(fmt::format("resume: {} is {} in {}, but {} now{}", key, found->second,
                                     checkpoint.string(), value, cause_of(key)));
  }
  if (problems.empty()) return;
  problems.back() += fmt::format(
      ". To continue the run, give what it was started with; for a new run from its weights, use "
      "model.archive={} without resume",
      checkpoint.string());
  throw UserError(std::move(problems));
}

}  // namespace dpo::run
