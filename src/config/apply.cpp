#include "config/apply.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "config/key_hints.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;

bool is_known(const std::string& key) { return find_field(key) || is_section(key); }

[[noreturn]] void fail(const Override& change, const std::string& what, const std::string& hint = "") {
  throw UserError(
      fmt::format("{}: {} (command line: {}){}", shown(change.key), what, shown(change.text), hint));
}

[[noreturn]] void fail_unknown(const Node& tree, const Override& change, const std::string& key) {
  if (key == "hydra" || key.starts_with("hydra."))
    fail(change, "Hydra's own settings are not supported; the run folder is set by local_run_dir");
  const Path path = split_path(key), above(path.begin(), path.end() - 1);
  const Node* const list = find_node(tree, above);
  if (list && list->kind == Kind::List)
    fail(change,
         fmt::format("index out of range, the list has {}", plural(std::ssize(list->children), "value")),
         fmt::format("; write the whole list: {}=[...]", join_path(above)));
  const Field* const map = find_field(join_path(above));
  if (map && map->default_text == "{}" && change.value && change.value->is_scalar())
    fail(change, "unknown key",
         fmt::format("; a map is written as one value: {}={{{}: {}}}", map->key, shown(path.back()),
                     shown(change.value->text)));
  const std::string hint = did_you_mean_key(key);
  fail(change, key == change.key ? "unknown key" : fmt::format("unknown key '{}'", shown(key)),
       hint.empty() ? fmt::format("; to add it although nothing reads it, write +{}", shown(change.text))
                    : hint);
}

// Returns the node at `path`, and creates it and the maps above it if missing.
Node& make_place(Node& tree, const Path& path, const Origin& origin) {
  Node* node = &tree;
  std::string key;
  bool inside_added = false;  // keys below an added key are added too
  for (const std::string& name : path) {
    key += key.empty() ? name : "." + name;
    Node* next = find_child(*node, name);
    if (!next) {
      if (node->kind != Kind::Map) assign(*node, make_map(origin));
      Node child = make_map(origin);
      child.name = name;
      child.added = !inside_added && !is_known(key);
      next = &node->children.emplace_back(std::move(child));
    }
    node = next;
    inside_added = inside_added || node->added;
  }
  return *node;
}

// Merges `value` into the node at `key`. A map may only contain keys that exist or are known.
void change_value(Node& tree, const Override& change, const std::string& key, const Node& value) {
  const Node* const present = find_node(tree, split_path(key));
  if (!present && !is_known(key)) fail_unknown(tree, change, key);
  const bool joins = value.kind == Kind::Map &&
                     (is_section(key) || (present && present->kind == Kind::Map && !find_field(key)));
  if (!joins) return assign(make_place(tree, split_path(key), value.origin), value);
  for (const Node& child : value.children) change_value(tree, change, key + "." + child.name, child);
}

void mark_added(Node& node, const std::string& key) {
  for (Node& child : node.children)
    if (!is_known(key + "." + child.name)) child.added = true;
}

void add_value(Node& tree, const Override& change) {
  const Node* const present = find_node(tree, split_path(change.key));
  const bool taken = present && !present->is_unset() && change.value->is_scalar();
  if (taken && change.kind == Override::Kind::Add)
    fail(change, fmt::format("already set to {}", shown(*present)),
         fmt::format("; write {} to change it", shown(std::string_view(change.text).substr(1))));
  Node& place = make_place(tree, split_path(change.key), change.value->origin);
  merge(place, *change.value);
  if (is_section(change.key)) mark_added(place, change.key);
}

void delete_value(Node& tree, const Override& change) {
  const Path path = split_path(change.key);
  Node* const present = find_node(tree, path);
  const Field* const field = find_field(change.key);
  if (!present && !field) fail_unknown(tree, change, change.key);
  if (change.value && present && !equal_values(*present, *change.value))
    fail(change, fmt::format("its value is {}, not {}", shown(*present), shown(*change.value)));
  if (is_section(change.key) || (field && !field->nullable))
    fail(change, "required, cannot be removed", fmt::format("; give it another value: {}=...", change.key));
  if (field)
    return assign(make_place(tree, path, {}),
                  make_scalar(Kind::Null, "null", {Origin::Kind::CommandLine, change.text}));
  Node& parent = *find_node(tree, {path.begin(), path.end() - 1});
  parent.children.erase(parent.children.begin() + (present - parent.children.data()));
}

bool is_broken(const Node& tree, const std::string& key) {
  const Node* node = &tree;
  for (const std::string& name : split_path(key))
    if (node && node->kind != Kind::Broken) node = find_child(*node, name);
  return node && node->kind == Kind::Broken;
}

}  // namespace

void apply(Node& tree, const Override& change) {
  if (change.value && split_path(change.key).size() + depth_of(*change.value) > kDeepestNesting)
    fail(change, fmt::format("nested more than {} levels deep", kDeepestNesting));
  if (is_broken(tree, change.key)) return;  // its preset was already rejected
  switch (change.kind) {
    case Override::Kind::Change: return change_value(tree, change, change.key, *change.value);
    case Override::Kind::Add:
    case Override::Kind::Force: return add_value(tree, change);
    case Override::Kind::Delete: return delete_value(tree, change);
  }
}

}  // namespace dpo::config
