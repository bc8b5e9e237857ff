#include "config/modern.h"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/user_path.h"
#include "config/defaults.h"
#include "config/losses.h"
#include "config/print.h"
#include "config/schema.h"
#include "config/yaml_reader.h"

namespace dpo::config {
namespace {

namespace fs = std::filesystem;
using Kind = Node::Kind;

constexpr const char* kReason = "defaults=modern";

struct Value {
  const char* key;
  const char* yaml;
};

// Values that are the same for all runs. The gradient clipping is that of TRL and most recipes.
constexpr Value kValues[] = {{"optimizer", "AdamW"},
                             {"lr_schedule", "linear"},
                             {"max_grad_norm", "1.0"},
                             {"model.fsdp_policy_mp", "auto"},
                             {"activation_checkpointing", "auto"},
                             {"keep_last", "2"},
                             {"wandb.enabled", "false"},  // a run leaves this machine only if the user asks
                             // Values for data that is not on this machine yet.
                             {"batch_size", "32"},
                             {"max_length", "1024"},
                             {"max_prompt_length", "512"},
                             {"warmup_steps", "20"}};

std::string text_at(const Node& tree, const char* key) {
  const Node* const node = find_node(tree, split_path(key));
  return node && node->kind == Kind::Text ? node->text : "";
}

void set(Node& tree, const char* key, Node value) {
  Node* const node = find_node(tree, split_path(key));
  if (!node || is_given(*node)) return;
  value.origin = {Origin::Kind::Default, kReason};
  assign(*node, std::move(value));
}

void set(Node& tree, const char* key, const char* yaml) {
  set(tree, key, std::move(read_default_yaml(fmt::format("value: {}", yaml)).children.front()));
}

// Returns the learning rate of TRL's trainers. An adapter has few weights and needs about ten times that
// rate.
const char* learning_rate(const Node& tree) {
  const bool is_sft = text_at(tree, "loss.name") == name_of(Loss::sft);
  const bool has_adapter = text_at(tree, "adapter.name") == name_of(Adapter::lora);
  if (is_sft) return has_adapter ? "2e-4" : "2e-5";
  return has_adapter ? "1e-5" : "1e-6";
}

// Returns the first value of beta to try with the tree's loss.
const char* first_beta(const Node& tree) {
  return facts_of(find_choice<Loss>(text_at(tree, "loss.name")).value_or(Loss::dpo)).beta.first;
}

// Returns the run's name from loss and model: "dpo-SmolLM2-135M-Instruct".
std::string run_name(const Node& tree) {
  fs::path model = without_slash(text_at(tree, "model.name_or_path"));
  const std::string last = model.filename().string();
  if (last == kLatest || last == kBest || last.starts_with("step-")) model = model.parent_path();
  const std::string adapter = text_at(tree, "adapter.name");
  const std::string name = model.filename().string();
  return fmt::format("{}-{}{}", text_at(tree, "loss.name"), name.starts_with(".") ? "model" : name,
                     adapter.empty() || adapter == name_of(Adapter::none) ? "" : "-" + adapter);
}

}  // namespace

void set_modern_defaults(Node& tree, bool needs_data, std::vector<std::string>& problems) {
  for (const Value& value : kValues) set(tree, value.key, value.yaml);
  set(tree, "lr", learning_rate(tree));
  const Node* const beta = find_node(tree, {"loss", "beta"});
  if (beta && beta->kind == Kind::Missing) set(tree, "loss.beta", first_beta(tree));
  const Node* const model = find_node(tree, {"model", "name_or_path"});
  if (model && model->kind == Kind::Text) set(tree, "exp_name", to_node(run_name(tree)));
  if (const std::string name = text_at(tree, "exp_name"); !name.empty())
    set(tree, "local_run_dir", to_node("runs/" + name));
  if (needs_data && !is_given(*find_child(tree, "datasets")))
    problems.push_back(
        "data: required; set data=FILE, data=FOLDER or data=ORG/NAME, several as data=[A,B] (docs/data.md), "
        "or defaults=original for the original's data set, hh");
}

std::string modern_note(const Resolved& resolved) {
  std::vector<std::string> values, of_data;
  for (const Field& field : schema()) {
    const Node* const node = find_node(*resolved.tree, split_path(field.key));
    if (!node || node->origin.kind != Origin::Kind::Default) continue;
    const std::string text = fmt::format("{}={}", field.key, inline_yaml(*node));
    if (node->origin.detail == kReason) values.push_back(text);
    if (node->origin.detail == kModernOfData) of_data.push_back(text);
  }
  if (values.empty() && of_data.empty()) return "";
  return fmt::format(
      "defaults=modern, where you gave no value: {}{}{}; defaults=original has those of "
      "direct-preference-optimization",
      fmt::join(values, " "), of_data.empty() ? "" : "; for this data: ", fmt::join(of_data, " "));
}

}  // namespace dpo::config
