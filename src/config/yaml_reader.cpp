#include "config/yaml_reader.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>
// This order is required: eventhandler.h of some versions uses declarations in yaml.h.
#include <yaml-cpp/eventhandler.h>

#include "base/error.h"
#include "config/scalar.h"
#include "config/text.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;

constexpr std::string_view kYamlTag = "tag:yaml.org,2002:";

// Builds nodes from the parser's events. yaml-cpp's own tree would expand aliases without limit, drop
// duplicate keys and recurse as deeply as the input.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string name, Origin::Kind kind) : name_(std::move(name)), kind_(kind) {}

  bool has_document() const { return done_; }
  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make_scalar(Kind::Null, "null", origin(mark)), mark, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(mark, "an alias refers to the value that contains it");
    nodes_ += count_nodes(found->second);
    expanded_ += bytes_of(found->second);
    if (expanded_ > kMostExpanded) fail(mark, "the aliases expand to more than 4 MiB");
    if (open_.size() + depth_of(found->second) > kDeepestNesting) fail_deep(mark);
    add(found->second, mark, YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    add(scalar(mark, tag, value), mark, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Kind::List, "seq", mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Kind::Map, "map", mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    bool has_key = false;
    std::string key = {};
    std::map<std::string, int> key_lines = {};
    std::vector<Node> merged = {};  // maps of << keys; the map's own values take precedence
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw UserError(fmt::format("{}:{}:{}: {}", name_, mark.line + 1, mark.column + 1, what));
  }
  [[noreturn]] void fail_deep(const YAML::Mark& mark) const {
    fail(mark, fmt::format("nested more than {} levels deep", kDeepestNesting));
  }

  Origin origin(const YAML::Mark& mark) const {
    if (name_.empty()) return {};
    return {kind_, fmt::format("{}:{}", name_, mark.line + 1)};
  }

  Node scalar(const YAML::Mark& mark, const std::string& tag, const std::string& value) const {
    if (first_bad_byte(value) != std::string::npos)
      fail(mark, "a value contains control characters; expected text");
    if (tag == "!" || tag == fmt::format("{}str", kYamlTag))
      return make_scalar(Kind::Text, value, origin(mark));
    const bool plain = tag.empty() || tag == "?";
    Node node = yaml_scalar(value, origin(mark));
    const auto asked = [&](std::string_view type) { return tag == fmt::format("{}{}", kYamlTag, type); };
    if (node.kind == Kind::Int && asked("float")) node.kind = Kind::Float;
    if (plain || (node.kind == Kind::Int && asked("int")) || (node.kind == Kind::Float && asked("float")) ||
        (node.kind == Kind::Bool && asked("bool")) || (node.kind == Kind::Null && asked("null")))
      return node;
    fail(mark, fmt::format("the tag '{}' does not fit '{}'; leave it out", shown(tag), shown(value)));
  }

  void open(Kind kind, std::string_view type, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    if (!tag.empty() && tag != "?" && tag != "!" && tag != fmt::format("{}{}", kYamlTag, type))
      fail(mark, fmt::format("unknown tag '{}'; leave it out", shown(tag)));
    if (!open_.empty() && open_.back().node.kind == Kind::Map && !open_.back().has_key)
      fail(mark, "a list or map as a key; expected a name");
    if (open_.size() >= kDeepestNesting) fail_deep(mark);
    Node node;
    node.kind = kind;
    node.origin = origin(mark);
    open_.push_back({std::move(node), mark, anchor});
  }

  void close() {
    Open finished = std::move(open_.back());
    open_.pop_back();
    for (Node& map : finished.merged)
      for (Node& child : map.children)
        if (!find_child(finished.node, child.name)) finished.node.children.push_back(std::move(child));
    add(std::move(finished.node), finished.mark, finished.anchor);
  }

  void add(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (++nodes_ > kMostNodes) fail(mark, fmt::format("more than {} values", kMostNodes));
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      done_ = true;
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Kind::List)
      parent.node.children.push_back(std::move(node));
    else if (!parent.has_key)
      add_key(parent, node, mark);
    else
      add_value(parent, std::move(node), mark);
  }

  void add_key(Open& parent, const Node& node, const YAML::Mark& mark) {
    if (!node.is_scalar()) fail(mark, "a list or map as a key; expected a name");
    if (node.text.size() > kLongestName + 1)  // one more for the '+' of an added key
      fail(mark, fmt::format("a key is longer than {} characters", kLongestName));
    parent.key = node.text;
    parent.has_key = true;
    const auto [first, is_new] = parent.key_lines.emplace(parent.key, mark.line);
    if (!is_new)
      fail(mark, fmt::format("'{}' is given twice, first in line {}", shown(parent.key), first->second + 1));
  }

  void add_value(Open& parent, Node node, const YAML::Mark& mark) {
    parent.has_key = false;
    if (parent.key == "<<") return add_merged(parent, std::move(node), mark);
    node.name = parent.key;
    parent.node.children.push_back(std::move(node));
  }

  void add_merged(Open& parent, Node node, const YAML::Mark& mark) {
    if (node.kind == Kind::Map) {
      parent.merged.push_back(std::move(node));
      return;
    }
    const bool maps =
        node.kind == Kind::List && std::all_of(node.children.begin(), node.children.end(),
                                               [](const Node& n) { return n.kind == Kind::Map; });
    if (!maps) fail(mark, "'<<' takes a map or a list of maps");
    for (Node& map : node.children) parent.merged.push_back(std::move(map));
  }

  std::string name_;
  Origin::Kind kind_;
  Node root_;
  bool done_ = false;
  std::size_t nodes_ = 0;
  std::size_t expanded_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
};

void check_bytes(std::string_view text, const std::string& name) {
  if (text.size() > kLargestFile)
    throw UserError(
        fmt::format("{}: larger than {} bytes, too large for a configuration", name, kLargestFile));
  const std::size_t bad = first_bad_byte(text);
  if (bad == std::string_view::npos) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
  throw UserError(
      fmt::format("{}:{}: byte 0x{:02x} is not allowed; expected UTF-8 without control characters", name,
                  line, static_cast<unsigned char>(text[bad])));
}

// Reports a tab in the indentation, the usual reason why a file that looks right is rejected.
std::string tab_hint(std::string_view text, int line) {
  std::size_t start = 0;
  for (; line > 0 && start < text.size(); --line)
    start = std::min(text.find('\n', start), text.size() - 1) + 1;
  const std::size_t indent_end = std::min(text.find_first_not_of(" \t", start), text.size());
  const bool has_tab = text.substr(start, indent_end - start).find('\t') != std::string_view::npos;
  return has_tab ? "; the line is indented with a tab, and YAML needs spaces" : "";
}

}  // namespace

Node read_yaml(std::string_view text, const std::string& name, Origin::Kind kind) {
  check_bytes(text, name);
  Builder builder(name, kind);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    parser.HandleNextDocument(builder);
    Builder second(name, kind);
    if (parser.HandleNextDocument(second))
      throw UserError(fmt::format("{}: more than one document ('---'); expected one", name));
  } catch (const YAML::Exception& error) {
    const std::string what = shown(error.msg) + tab_hint(text, error.mark.line);
    if (error.mark.is_null()) throw UserError(fmt::format("{}: {}", name, what));
    throw UserError(fmt::format("{}:{}:{}: {}", name, error.mark.line + 1, error.mark.column + 1, what));
  }
  Node root = builder.take();
  if (root.kind == Kind::Null) root = make_map(root.origin);
  if (root.kind != Kind::Map)
    throw UserError(
        fmt::format("{}: got {} at the top level, expected a map (KEY: VALUE lines)", name, shown(root)));
  return root;
}

Node read_default_yaml(std::string_view text) { return read_yaml(text, ""); }

}  // namespace dpo::config
