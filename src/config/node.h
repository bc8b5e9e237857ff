#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/text.h"

namespace dpo::config {

// Limits that keep malicious input from exhausting stack or memory, far above any real configuration.
inline constexpr std::size_t kDeepestNesting = 64;
inline constexpr std::size_t kMostNodes = 100'000;
inline constexpr std::size_t kLongestName = 256;
inline constexpr std::size_t kMostExpanded = 4u << 20;  // bytes that aliases and references may copy

// The place where a value was written, for messages and for `dpo config`.
struct Origin {
  enum class Kind { Default, Preset, File, CommandLine, Environment };

  Kind kind = Kind::Default;
  // "my.yaml:12", "model/gptj.yaml:3" (in a built-in preset), the command-line argument, the variable's name,
  // or the reason for a default.
  std::string detail;

  std::string label() const;   // "default", "my.yaml:12", "command line", "environment variable X"
  std::string phrase() const;  // like label(), for a message, with the command-line argument
};

// A value that has no type yet. Numbers keep their text, because the key decides whether it is an integer or
// a float, and its range.
struct Node {
  enum class Kind {
    Null,
    Missing,  // ???: required
    Broken,   // a problem already reported
    Bool,
    Int,
    Float,
    Text,
    List,
    Map,
  };

  std::string name;    // if in a map
  bool added = false;  // by +name=value, a key that dpo does not read
  Kind kind = Kind::Null;
  std::string text;  // a scalar's text in canonical form
  std::vector<Node> children;
  Origin origin;

  bool is_scalar() const { return kind != Kind::List && kind != Kind::Map; }
  bool is_unset() const { return kind == Kind::Null || kind == Kind::Missing; }
};

using Path = std::vector<std::string>;

Path split_path(std::string_view dotted);
std::string join_path(const Path& path);

Node make_scalar(Node::Kind kind, std::string text, Origin origin);
Node make_map(Origin origin);

// Returns the child of a map by name, or of a list by index, or nullptr if there is none.
const Node* find_child(const Node& parent, std::string_view name);
Node* find_child(Node& parent, std::string_view name);
const Node* find_node(const Node& root, const Path& path);
Node* find_node(Node& root, const Path& path);

// Replaces `target` with `value` but keeps the name.
void assign(Node& target, Node value);

// Merges `over` into `base`: maps key by key; any other value is replaced.
void merge(Node& base, Node over);

bool equal_values(const Node& a, const Node& b);
std::size_t count_nodes(const Node& node);
std::size_t depth_of(const Node& node);
std::size_t bytes_of(const Node& node);  // approximate cost of a copy

// Formats the value for messages, in the user's notation.
std::string shown(const Node& node);

}  // namespace dpo::config
