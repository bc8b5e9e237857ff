#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/text.h"

namespace dpo::config {

// Bounds that keep hostile input from exhausting the stack or the memory. No honest configuration comes near.
inline constexpr std::size_t kDeepestNesting = 64;
inline constexpr std::size_t kMostNodes = 100'000;
inline constexpr std::size_t kLongestName = 256;
inline constexpr std::size_t kMostUnfolded = 4u << 20;  // bytes that aliases and references may copy

// Where a value was written, for messages and for `dpo config`.
struct Origin {
  enum class Kind { Default, File, CommandLine, Environment };

  Kind kind = Kind::Default;
  std::string detail;  // "my.yaml:12", the word of the command line, or the variable's name

  std::string label() const;   // "default", "my.yaml:12", "command line", "environment variable X"
  std::string phrase() const;  // the same in a message: the word of the command line is shown
};

// A value before the schema has given it a type. Numbers keep their text: only the key that they are for
// knows whether it wants an integer or a fraction, and what range.
struct Node {
  enum class Kind {
    Null,
    Missing,  // ???, to be set by the user
    Broken,   // already reported; whoever meets it stays silent
    Bool,
    Int,
    Float,
    Text,
    List,
    Map,
  };

  std::string name;    // in a map
  bool added = false;  // by +name=value: a key that nothing of ours reads
  Kind kind = Kind::Null;
  std::string text;  // of a scalar, in canonical form
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

// The child of a map by its name, or of a list by its index; null if there is none.
const Node* find_child(const Node& parent, std::string_view name);
Node* find_child(Node& parent, std::string_view name);
const Node* find_node(const Node& root, const Path& path);
Node* find_node(Node& root, const Path& path);

// Puts `value` in the place of `target`, which keeps its name.
void assign(Node& target, Node value);

// Lays `over` on `base`: maps are joined key by key, anything else replaces.
void merge(Node& base, Node over);

bool equal_values(const Node& a, const Node& b);
std::size_t count_nodes(const Node& node);
std::size_t depth_of(const Node& node);
std::size_t bytes_of(const Node& node);  // about: what a copy costs

// The value as the user would write it, for messages.
std::string shown(const Node& node);

}  // namespace dpo::config
