#include "config/read.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "config/assets.h"
#include "config/key_hints.h"
#include "config/scalar.h"
#include "config/schema.h"
#include "config/value_hints.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;
using Texts = std::vector<std::string>;

template <class Choice>
bool is_in(const std::vector<Choice>& choices, const std::string& name) {
  const std::optional<Choice> choice = find_choice<Choice>(name);
  return choice && std::find(choices.begin(), choices.end(), *choice) != choices.end();
}

bool applies(const Field& field, const std::string& loss) {
  return field.losses.empty() || is_in(field.losses, loss);
}

// Returns the loss in the tree, which may not be a valid one.
std::string loss_name(const Node& tree) {
  const Node* const name = find_node(tree, {"loss", "name"});
  return name ? name->text : "";
}

// Reports the first name in a map that is not allowed.
std::string unknown_names(const Field& field, const Node& map) {
  for (const Node& child : map.children)
    if (std::find(field.names.begin(), field.names.end(), child.name) == field.names.end())
      return fmt::format("; unknown name '{}', expected one of {}{}", shown(child.name),
                         fmt::join(field.names, ", "), did_you_mean(child.name, field.names));
  return "";
}

// Suggests a fix for text where another type is expected: YAML's yes or on, or a quoted number or boolean.
std::string hint_for_text(const Field& field, const Node& node) {
  if (node.kind != Kind::Text || field.is_text || node.text.empty() ||
      node.origin.kind == Origin::Kind::Environment)
    return "";
  const Node unquoted = yaml_scalar(node.text, {});
  if (unquoted.kind == Kind::Text) return "";
  if (unquoted.kind == Kind::Bool && unquoted.text != node.text)
    return field.expected.starts_with("true") ? fmt::format("; write {}={}", field.key, unquoted.text) : "";
  return "; write it without quotes";
}

// Returns the end of a message: what the user probably meant.
std::string hint(const Field& field, const Node& node) {
  const bool is_none = node.text == "none" || node.text == "None";
  const bool turns_off = node.text == "off" || node.text == "no" || node.text == "false";
  if (field.nullable && (is_none || (turns_off && !field.expected.starts_with("true"))))
    return "; write null";
  if (!field.choices.empty() && node.is_scalar()) return hint_for_value(field.key, node.text, field.choices);
  if (!field.names.empty() && node.kind == Kind::Map) return unknown_names(field, node);
  if (field.expected.starts_with("a list") && node.kind == Kind::Text && !node.text.empty() && !is_none)
    return node.text.starts_with('[') ? "; write it without quotes"
                                      : fmt::format("; write {}=[{}]", field.key, shown(node.text));
  if (field.expected.starts_with("a whole number") && node.kind == Kind::Float) {
    const auto value = to_double(node.text);
    if (value && std::abs(*value) < 1e15 && std::floor(*value) == *value)
      return fmt::format("; write {}={:.0f}", field.key, *value);
  }
  return hint_for_text(field, node);
}

std::string unset_problem(const Field& field, const Node& node) {
  std::string remedy = fmt::format("set {}=VALUE, where VALUE is {}", field.key, field.expected);
  if (field.key == "model.name_or_path") {
    Texts presets = assets_in("model");
    std::erase(presets, "blank_model");  // this preset sets no model
    remedy = fmt::format("give model=FOLDER or model=ORG/NAME, or choose a preset (model=NAME: {})",
                         fmt::join(presets, ", "));
  }
  const std::string origin =
      node.origin.kind == Origin::Kind::Default ? "" : fmt::format(" ({})", node.origin.phrase());
  return fmt::format("{}: required; {}{}", field.key, remedy, origin);
}

// Returns "only to loss=dpo, robust", or "to every loss but sft" if there are many.
std::string owners_of(const Field& field) {
  Texts others;
  for (const std::string& loss : names_of(all_choices<Loss>()))
    if (!applies(field, loss)) others.push_back(loss);
  if (others.size() < field.losses.size())
    return fmt::format("to every loss but {}", fmt::join(others, " and "));
  return fmt::format("only to loss={}", fmt::join(names_of(field.losses), ", "));
}

void read_field(const Field& field, const Node& node, const std::string& loss, RunConfig& config,
                Texts& problems) {
  if (node.kind == Kind::Broken) return;
  if (!applies(field, loss) && find_choice<Loss>(loss))  // an unknown loss is already reported
    return problems.push_back(fmt::format("{} applies {}; the loss is {} ({})", field.key, owners_of(field),
                                          shown(loss), node.origin.phrase()));
  if (node.kind == Kind::Missing) return problems.push_back(unset_problem(field, node));
  if (!field.read(node, config))
    problems.push_back(fmt::format("{}: got {}, expected {} ({}){}", field.key, shown(node), field.expected,
                                   node.origin.phrase(), hint(field, node)));
}

// Reports settings that the optimizer does not have, which would otherwise be ignored silently.
void check_optimizer(const Node& tree, const RunConfig& config, Texts& problems) {
  const Node* const chosen = find_child(tree, "optimizer");
  if (!chosen || !find_choice<Optimizer>(chosen->text)) return;  // already reported
  for (const Field& field : schema()) {
    if (field.optimizers.empty() || is_in(field.optimizers, chosen->text)) continue;
    if (field.write(config).kind == Kind::Null) continue;
    problems.push_back(fmt::format("{} applies only to optimizer={}; the optimizer is {} ({})", field.key,
                                   fmt::join(names_of(field.optimizers), ", "), chosen->text,
                                   find_node(tree, split_path(field.key))->origin.phrase()));
  }
}

// Reports settings of an adapter if there is none, which would otherwise be ignored silently.
void check_adapter(const Node& tree, const RunConfig& config, Texts& problems) {
  if (config.adapter.name != Adapter::none) return;
  for (const Field& field : schema()) {
    const Node* const node = find_node(tree, split_path(field.key));
    if (!field.key.starts_with("adapter.") || !node || node->kind == Kind::Broken) continue;
    if (has_default(config, field)) continue;
    problems.push_back(fmt::format("{} applies only to adapter=lora; the adapter is none ({})", field.key,
                                   node->origin.phrase()));
  }
}

void check_name(const Node& node, const std::string& key, Texts& problems, Texts& notes) {
  if (find_field(key)) return;
  const std::string near = did_you_mean_key(key);
  if (node.added)
    return notes.push_back(fmt::format("{}: unused key ({}){}", shown(key), node.origin.phrase(), near));
  if (key == "hydra")
    return problems.push_back(
        fmt::format("hydra: Hydra's own settings are not supported; remove them ({})", node.origin.phrase()));
  problems.push_back(
      fmt::format("{}: unknown key ({}){}", shown(key), node.origin.phrase(),
                  near.empty() ? fmt::format("; to keep an unused key, write +{}", shown(node.name)) : near));
}

void check_names(const Node& tree, Texts& problems, Texts& notes) {
  for (const Node& child : tree.children) {
    if (!is_section(child.name)) {
      check_name(child, child.name, problems, notes);
    } else if (child.kind == Kind::Map) {
      for (const Node& grandchild : child.children)
        check_name(grandchild, child.name + "." + grandchild.name, problems, notes);
    } else if (child.kind != Kind::Broken) {
      problems.push_back(fmt::format("{}: got {}, expected a map of keys ({})", child.name, shown(child),
                                     child.origin.phrase()));
    }
  }
}

}  // namespace

void fill_defaults(Node& tree) {
  const std::string loss = loss_name(tree);
  for (const Field& field : schema()) {
    if (!applies(field, loss)) continue;
    const Path path = split_path(field.key);
    Node* parent = &tree;
    if (path.size() == 2) {
      parent = find_child(tree, path[0]);
      if (!parent) {
        parent = &tree.children.emplace_back(make_map({}));
        parent->name = path[0];
      }
    }
    if (parent->kind != Kind::Map || find_child(*parent, path.back())) continue;
    Node value = default_of(field);
    value.name = path.back();
    parent->children.push_back(std::move(value));
  }
}

RunConfig read_tree(const Node& tree, Texts& problems, Texts& notes) {
  RunConfig config;
  const std::string loss = loss_name(tree);
  for (const Field& field : schema())
    if (const Node* const node = find_node(tree, split_path(field.key)))
      read_field(field, *node, loss, config, problems);
  check_names(tree, problems, notes);
  check_optimizer(tree, config, problems);
  if (problems.empty()) check_adapter(tree, config, problems);
  if (problems.empty() && !config.n_epochs && !config.n_examples)
    problems.push_back(fmt::format(
        "n_epochs, n_examples: both are null ({}; {}), so the run would never end; set n_epochs=1 or "
        "n_examples=NUMBER",
        find_child(tree, "n_epochs")->origin.phrase(), find_child(tree, "n_examples")->origin.phrase()));
  return config;
}

Node write_tree(const RunConfig& config) {
  Node tree = make_map({});
  for (const Field& field : schema()) {
    if (!applies(field, name_of(config.loss.name))) continue;
    const Path path = split_path(field.key);
    Node value = field.write(config);
    value.name = path.back();
    Node* parent = &tree;
    if (path.size() == 2 && !(parent = find_child(tree, path[0]))) {
      parent = &tree.children.emplace_back(make_map({}));
      parent->name = path[0];
    }
    parent->children.push_back(std::move(value));
  }
  return tree;
}

}  // namespace dpo::config
