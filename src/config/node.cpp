#include "config/node.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dpo::config {
namespace {

constexpr std::size_t kMostShown = 80;  // characters shown of lists and maps

// Formats a value with the override grammar: [a, {b: 1}]. Long values are cut.
void show_inside(const Node& node, std::string& out) {
  if (node.is_scalar()) {
    out += node.kind == Node::Kind::Null ? "null" : node.text.empty() ? "''" : node.text;
    return;
  }
  const bool is_map = node.kind == Node::Kind::Map;
  out += is_map ? "{" : "[";
  for (const Node& child : node.children) {
    if (out.size() > kMostShown) break;  // messages are cut there
    if (&child != &node.children.front()) out += ", ";
    if (is_map) out += child.name + ": ";
    show_inside(child, out);
  }
  out += is_map ? "}" : "]";
}

}  // namespace

std::string Origin::label() const {
  switch (kind) {
    case Kind::Default: return detail.empty() ? "default" : detail;
    case Kind::Preset:
    case Kind::File: return detail;
    case Kind::CommandLine: return "command line";
    case Kind::Environment: return fmt::format("environment variable {}", detail);
  }
  return {};
}

std::string Origin::phrase() const {
  return kind == Kind::CommandLine ? fmt::format("command line: {}", shown(detail)) : label();
}

Path split_path(std::string_view dotted) {
  Path path;
  for (std::size_t start = 0;;) {
    const std::size_t dot = dotted.find('.', start);
    path.emplace_back(dotted.substr(start, dot - start));
    if (dot == std::string_view::npos) return path;
    start = dot + 1;
  }
}

std::string join_path(const Path& path) { return fmt::format("{}", fmt::join(path, ".")); }

Node make_scalar(Node::Kind kind, std::string text, Origin origin) {
  Node node;
  node.kind = kind == Node::Kind::Text && text == "???" ? Node::Kind::Missing : kind;
  node.text = std::move(text);
  node.origin = std::move(origin);
  return node;
}

Node make_map(Origin origin) {
  Node node;
  node.kind = Node::Kind::Map;
  node.origin = std::move(origin);
  return node;
}

const Node* find_child(const Node& parent, std::string_view name) {
  if (parent.kind == Node::Kind::List) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = error == std::errc{} && end == name.data() + name.size();
    return is_index && index < parent.children.size() ? &parent.children[index] : nullptr;
  }
  const auto found = std::find_if(parent.children.begin(), parent.children.end(),
                                  [&](const Node& child) { return child.name == name; });
  return found == parent.children.end() ? nullptr : &*found;
}

Node* find_child(Node& parent, std::string_view name) {
  return const_cast<Node*>(find_child(static_cast<const Node&>(parent), name));
}

const Node* find_node(const Node& root, const Path& path) {
  const Node* node = &root;
  for (const std::string& name : path)
    if (node) node = find_child(*node, name);
  return node;
}

Node* find_node(Node& root, const Path& path) {
  return const_cast<Node*>(find_node(static_cast<const Node&>(root), path));
}

void assign(Node& target, Node value) {
  value.name = std::move(target.name);
  value.added = target.added;
  target = std::move(value);
}

void merge(Node& base, Node over) {
  if (base.kind == Node::Kind::Broken) return;
  if (base.kind != Node::Kind::Map || over.kind != Node::Kind::Map) return assign(base, std::move(over));
  for (Node& child : over.children) {
    if (Node* present = find_child(base, child.name))
      merge(*present, std::move(child));
    else
      base.children.push_back(std::move(child));
  }
}

bool equal_values(const Node& a, const Node& b) {
  return a.kind == b.kind && (!a.is_scalar() || a.text == b.text || a.is_unset()) &&
         std::equal(a.children.begin(), a.children.end(), b.children.begin(), b.children.end(),
                    [](const Node& x, const Node& y) { return x.name == y.name && equal_values(x, y); });
}

std::size_t count_nodes(const Node& node) {
  std::size_t count = 1;
  for (const Node& child : node.children) count += count_nodes(child);
  return count;
}

std::size_t depth_of(const Node& node) {
  std::size_t deepest = 0;
  for (const Node& child : node.children) deepest = std::max(deepest, depth_of(child));
  return deepest + 1;
}

std::size_t bytes_of(const Node& node) {
  std::size_t bytes = sizeof(Node) + node.text.size();
  for (const Node& child : node.children) bytes += bytes_of(child);
  return bytes;
}

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Null: return "null";
    case Node::Kind::Missing: return "??? (not set)";
    case Node::Kind::Text: return fmt::format("'{}'", shown(node.text));
    case Node::Kind::List:
    case Node::Kind::Map: {
      std::string text;
      show_inside(node, text);
      return shown(text);
    }
    default: return shown(node.text);
  }
}

}  // namespace dpo::config
