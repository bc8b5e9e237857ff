#include "config/print.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "config/interpolate.h"
#include "config/read.h"
#include "config/scalar.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;

bool is_plain(const std::string& text) {
  const auto safe = [](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) || c == '_' || c == '/' || c == '.' || c == '-' ||
           c == '+';
  };
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), safe);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (c == '\n' || c == '\t' || c == '\r')
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    else
      out += c;
  }
  return out + "\"";
}

std::string text_yaml(const std::string& text) {
  const bool plain = is_plain(text) && yaml_scalar(text, {}).kind == Kind::Text;
  return plain ? text : quoted(escape_interpolations(text));
}

std::string float_yaml(const std::string& text) {
  if (text == "nan" || text == "inf") return "." + text;
  if (text == "-inf") return "-.inf";
  return text;
}

std::string name_yaml(const Node& node) {
  const std::string name = (node.added ? "+" : "") + node.name;
  const bool plain = is_plain(name) && yaml_scalar(name, {}).kind == Kind::Text;
  return plain ? name : quoted(name);
}

struct Line {
  std::string text;
  std::string comment;
};

void add_lines(const Node& map, const std::string& indent, std::vector<Line>& lines) {
  for (const Node& child : map.children) {
    if (child.kind == Kind::Map && !child.children.empty()) {
      lines.push_back({fmt::format("{}{}:", indent, name_yaml(child)), ""});
      add_lines(child, indent + "  ", lines);
    } else {
      lines.push_back(
          {fmt::format("{}{}: {}", indent, name_yaml(child), inline_yaml(child)), child.origin.label()});
    }
  }
}

void take_origins(Node& node, const Node& from) {
  node.origin = from.origin;
  for (Node& child : node.children)
    if (const Node* const same = find_child(from, child.name)) take_origins(child, *same);
}

void take_added(Node& node, const Node& from) {
  for (const Node& child : from.children) {
    Node* const same = find_child(node, child.name);
    if (child.added && !same)
      node.children.push_back(child);
    else if (same && same->kind == Kind::Map)
      take_added(*same, child);
  }
}

// Returns the typed values in the schema's order, with the tree's origins and added keys.
Node final_tree(const Resolved& resolved) {
  Node tree = write_tree(resolved.values);
  take_origins(tree, *resolved.tree);
  take_added(tree, *resolved.tree);
  return tree;
}

nlohmann::ordered_json json_of(const Node& node) {
  using Json = nlohmann::ordered_json;
  switch (node.kind) {
    case Kind::Bool: return node.text == "true";
    case Kind::Int:
      if (const auto value = to_int(node.text)) return *value;
      return node.text;
    case Kind::Float:
      if (const auto value = to_double(node.text); value && std::isfinite(*value)) return *value;
      return node.text;
    case Kind::Text: return node.text;
    case Kind::List: {
      Json list = Json::array();
      for (const Node& child : node.children) list.push_back(json_of(child));
      return list;
    }
    case Kind::Map: {
      Json map = Json::object();
      for (const Node& child : node.children) map[child.name] = json_of(child);
      return map;
    }
    default: return nullptr;
  }
}

}  // namespace

std::string inline_yaml(const Node& node) {
  std::vector<std::string> parts;
  for (const Node& child : node.children) {
    const std::string name = node.kind == Kind::Map ? name_yaml(child) + ": " : "";
    parts.push_back(name + inline_yaml(child));
  }
  switch (node.kind) {
    case Kind::List: return fmt::format("[{}]", fmt::join(parts, ", "));
    case Kind::Map: return fmt::format("{{{}}}", fmt::join(parts, ", "));
    case Kind::Null: return "null";
    case Kind::Missing: return "\"???\"";  // yaml-cpp rejects it unquoted in {}
    case Kind::Float: return float_yaml(node.text);
    case Kind::Text: return text_yaml(node.text);
    default: return node.text;
  }
}

std::string to_yaml(const Resolved& resolved) {
  constexpr std::size_t kWidestColumn = 60;
  std::vector<Line> lines;
  add_lines(final_tree(resolved), "", lines);
  std::size_t column = 0;
  for (const Line& line : lines) column = std::max(column, std::min(line.text.size(), kWidestColumn));
  std::string out;
  for (const Line& line : lines)
    out += line.comment.empty() ? line.text + "\n"
                                : fmt::format("{:<{}}  # {}\n", line.text, column, line.comment);
  return out;
}

std::string to_json(const Resolved& resolved) { return json_of(final_tree(resolved)).dump(2); }

}  // namespace dpo::config
