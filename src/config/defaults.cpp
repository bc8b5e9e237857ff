#include "config/defaults.h"

#include "config/schema.h"

namespace dpo::config {
bool is_given(const Resolved& resolved, std::string_view key) {
  const Node* const node = find_node(*resolved.tree, split_path(key));
  return node && is_given(*node);
}

bool is_given(const Node& value) {
  return value.origin.kind != Origin::Kind::Default && value.origin.kind != Origin::Kind::Preset;
}

bool is_changed(const Resolved& resolved, std::string_view key) {
  const Field* const field = find_field(key);
  return field && is_given(resolved, key) && !has_default(resolved.values, *field);
}

void set_default(Resolved& resolved, const std::string& key, const Node& value, const std::string& reason) {
  Node tree = *resolved.tree;
  Node& node = *find_node(tree, split_path(key));
  assign(node, value);
  node.origin = {Origin::Kind::Default, reason};
  find_field(key)->read(node, resolved.values);
  resolved.tree = std::make_shared<const Node>(std::move(tree));
}

}  // namespace dpo::config
