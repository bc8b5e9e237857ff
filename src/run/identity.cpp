#include "run/identity.h"

#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/sha256.h"
#include "checkpoint/read_tensors.h"
#include "config/losses.h"
#include "config/scalar.h"
#include "config/schema.h"
#include "model/spec/description.h"
#include "train/train_state.h"

namespace dpo::run {
namespace {

constexpr std::string_view kArchitecture = "config.json: ";  // prefix of the entries of model::describe
constexpr const char* kReferenceWeights = "reference";
constexpr const char* kBaseWeights = "base";
constexpr const char* kExamples = "training data";
constexpr const char* kPrompts = "prompts of the training data";
constexpr const char* kUpdates = "number of updates";
constexpr const char* kLateKey = "fsdp_reduce_dtype";  // older checkpoints of runs with this key lack it
constexpr const char* kAdapter = "adapter.name";

// Returns the likely cause if the name alone does not explain it.
std::string cause_of(const std::string& key) {
  if (key == kReferenceWeights || key == kBaseWeights)
    return "; the model that the run started from (model.archive or model.name_or_path) has changed: if "
           "LATEST now points elsewhere, give the checkpoint itself (step-N)";
  if (key == kExamples || key == kPrompts)
    return "; the data, its columns, its split, the maximum lengths, or for conversations the chat template "
           "or "
           "the date that it writes have changed";
  if (key == kUpdates)
    return "; n_epochs, n_examples or the data have changed, and lr_schedule depends on the length of the "
           "run";
  return "";
}

std::string entry_of(const Identity& identity, const char* key) {
  const auto found = identity.find(key);
  return found == identity.end() ? "null" : found->second;
}

// Returns the description of the model, or an empty one if an earlier version wrote the checkpoint.
model::Description architecture_of(const Identity& identity) {
  model::Description description;
  for (auto at = identity.lower_bound(std::string(kArchitecture));
       at != identity.end() && at->first.starts_with(kArchitecture); ++at)
    description[at->first.substr(kArchitecture.size())] = at->second;
  return description;
}

// Formats a value the way checkpoints have always stored it, so that older ones still compare equal.
std::string text_of(const config::Node& value) {
  using Kind = config::Node::Kind;
  std::vector<std::string> items;
  switch (value.kind) {
    case Kind::Null: return "null";
    case Kind::Float: return fmt::format("{}", config::to_double(value.text).value_or(0));
    case Kind::List:
      for (const config::Node& item : value.children) items.push_back(text_of(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    case Kind::Map:
      for (const config::Node& item : value.children)
        items.push_back(fmt::format("{:?}: {}", item.name, text_of(item)));
      return fmt::format("{{{}}}", fmt::join(items, ", "));
    case Kind::Missing:
    case Kind::Broken:
    case Kind::Bool:
    case Kind::Int:
    case Kind::Text: break;
  }
  return value.text;
}

// Returns "null" if optimizer state is stored in the weights' dtype, whether or not that was requested.
std::string text_of_state(const config::RunConfig& config) {
  if (!config.optimizer_state || name_of(*config.optimizer_state) == name_of(config.model.policy_dtype))
    return "null";
  return name_of(*config.optimizer_state);
}

// Returns "null" without a reference, otherwise its actual dtype, whether or not that was requested.
std::string text_of_reference_dtype(const config::RunConfig& config) {
  return uses_reference(config.loss) ? checkpoint::name_of_scalar(train::reference_dtype(config)) : "null";
}

std::string text_of_key(const config::Field& field, const config::RunConfig& config) {
  if (field.key == "optimizer_state") return text_of_state(config);
  if (field.key == "model.reference_dtype") return text_of_reference_dtype(config);
  if (field.key == "datasets") return fmt::format("{}", fmt::join(config.datasets, ","));
  if (field.key.starts_with("adapter.") && config.adapter.name == config::Adapter::none) return "null";
  return text_of(field.write(config));
}

// Returns whether a value means the behavior before its key existed: nothing, or the default.
bool is_neutral(const std::string& key, const std::string& value) {
  if (value == "null" || value == "false") return true;
  const config::Field* const field = config::find_field(key);
  return field && value == text_of(config::default_of(*field));
}

void check_architecture(const model::Description& saved, const model::Description& now,
                        const std::filesystem::path& checkpoint, std::vector<std::string>& problems,
                        std::vector<std::string>& notes) {
  if (now.empty()) return;
  if (saved.empty())
    notes.push_back(
        fmt::format("{} was written by an older dpo, which did not record the model's config.json: it is "
                    "taken to be unchanged",
                    checkpoint.string()));
  else if (const std::string other = model::differences(saved, now); !other.empty())
    problems.push_back(
        fmt::format("resume: the model's config.json is not that of {}: {}", checkpoint.string(), other));
}

// Returns a digest of which examples share a prompt. An epoch shuffles prompts, including those without an
// example, so the grouping determines the order.
std::string text_of_prompts(const data::Examples& examples) {
  const auto& starts = examples.list().starts;
  Sha256 sum;
  sum.add(std::as_bytes(std::span(starts)));
  return fmt::format("{} with SHA-256 {}", starts.size() - 1, to_hex(sum.finish()).substr(0, 16));
}

}  // namespace

Identity identity_of_keys(const config::RunConfig& config) {
  Identity identity;
  for (const config::Field& field : config::schema())
    if (field.effect == config::Effect::result) identity[field.key] = text_of_key(field, config);
  return identity;
}

Identity identity_of(const config::RunConfig& config, const std::string& tokenizer,
                     const data::Examples& train, std::int64_t updates) {
  const bool is_constant = config.lr_schedule == config::Schedule::constant;
  Identity identity = {{"tokenizer", tokenizer},
                       {kExamples, fmt::format("{} examples with SHA-256 {}", train.size(),
                                               data::digest_of(train).substr(0, 16))},
                       {kPrompts, text_of_prompts(train)},
                       {kUpdates, is_constant ? "null" : std::to_string(updates)}};
  identity.merge(identity_of_keys(config));
  return identity;
}

Identity identity_of_architecture(const model::ModelConfig& config) {
  Identity identity;
  for (const auto& [key, value] : model::describe(config)) identity[std::string(kArchitecture) + key] = value;
  return identity;
}

Identity identity_of_base(const std::string& fingerprint) { return {{kBaseWeights, fingerprint}}; }

void check_base(const Identity& saved, const model::ModelConfig& base, const std::string& fingerprint,
                const config::RunConfig& config, const std::filesystem::path& adapter) {
  if (const std::string other = model::differences(architecture_of(saved), model::describe(base));
      !other.empty())
    throw UserError(fmt::format(
        "model.archive: {} was trained over a model with another config.json than that of "
        "model.name_or_path={} now: {}. Give the model that it was trained over, or train a new adapter",
        adapter.string(), config.model.name_or_path, other));
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

Identity identity_of_reference(const std::string& fingerprint) { return {{kReferenceWeights, fingerprint}}; }

std::vector<std::string> check_identity(const Identity& saved, const Identity& now,
                                        const std::filesystem::path& checkpoint) {
  std::vector<std::string> problems, notes;
  const bool has_other_adapter =
      now.contains(kAdapter) && entry_of(saved, kAdapter) != entry_of(now, kAdapter);
  check_architecture(architecture_of(saved), architecture_of(now), checkpoint, problems, notes);
  for (const auto& [key, value] : now) {
    if (key.starts_with(kArchitecture)) continue;
    if (has_other_adapter && key.starts_with("adapter.") && key != kAdapter)
      continue;  // one reason is enough
    const auto found = saved.find(key);
    if (found == saved.end() && (key == kPrompts || is_neutral(key, value))) continue;
    if (found == saved.end() && key == kLateKey)
      notes.push_back(fmt::format(
          "{} was written by an older dpo, which did not record {}: it is taken to have been {}, as now",
          checkpoint.string(), key, value));
    else if (found == saved.end())
      problems.push_back(fmt::format(
          "resume: {} does not record {}: it was written by an older dpo, so dpo cannot tell whether this is "
          "the same run",
          checkpoint.string(), key));
    else if (found->second != value)
      problems.push_back(fmt::format("resume: {} is {} in {}, but {} now{}", key, found->second,
                                     checkpoint.string(), value, cause_of(key)));
  }
  if (problems.empty()) return notes;
  problems.back() += fmt::format(
      ". To continue the run, give what it was started with; for a new run from its weights, use "
      "model.archive={} without resume",
      checkpoint.string());
  throw UserError(std::move(problems));
}

}  // namespace dpo::run
