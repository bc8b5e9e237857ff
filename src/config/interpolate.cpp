#include "config/interpolate.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "config/key_hints.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;

constexpr std::size_t kLongestChain = 16;  // length of a chain of references
constexpr std::size_t kLongestText = 1u << 16;

// Thrown with the reason why a value could not be resolved. The catcher adds the key and origin.
struct Unresolvable {
  std::string reason;
};
struct AlreadyReported {};  // a referenced value could not be resolved

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Returns the position of the '}' that closes the "${" at `open`.
std::size_t closing_brace(std::string_view text, std::size_t open) {
  std::size_t depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{' && ++depth > kLongestChain) throw Unresolvable{"'{' nested too deeply"};
    if (text[i] == '}' && --depth == 0) return i;
  }
  throw Unresolvable{"'${' is not closed by '}'"};
}

// Splits at commas outside braces and quotes.
std::vector<std::string> split_arguments(std::string_view text) {
  std::vector<std::string> arguments(1);
  std::size_t depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote)
      quote = c == quote ? 0 : quote;
    else if (c == '\'' || c == '"')
      quote = c;
    depth += c == '{';
    depth -= c == '}' && depth > 0;
    if (c == ',' && depth == 0 && !quote)
      arguments.emplace_back();
    else
      arguments.back() += c;
  }
  for (std::string& argument : arguments) argument = std::string(trimmed(argument));
  return arguments;
}

class Resolver {
 public:
  Resolver(Node& root, std::vector<std::string>& problems) : root_(root), problems_(problems) {}

  void resolve_all() {
    Path path;
    visit(root_, path);
  }

 private:
  // Resolves a node. The target of a reference is visited before it is copied, so every value is resolved
  // once.
  void visit(Node& node, Path& path) {
    if (is_active(node)) throw Unresolvable{"it refers to itself"};
    if (node.kind == Kind::Text && node.text.find("${") != std::string::npos) return resolve(node, path);
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      path.push_back(node.kind == Kind::List ? fmt::format("{}", i) : node.children[i].name);
      visit(node.children[i], path);
      path.pop_back();
    }
  }

  void resolve(Node& node, const Path& path) {
    active_.push_back(&node);
    try {
      if (active_.size() > kLongestChain)
        throw Unresolvable{fmt::format("more than {} references in a row", kLongestChain)};
      Node value = expand(node.text, path, node.origin);
      if (path.size() + depth_of(value) > kDeepestNesting)
        throw Unresolvable{fmt::format("nested more than {} levels deep", kDeepestNesting)};
      assign(node, std::move(value));
    } catch (const Unresolvable& unresolvable) {
      problems_.push_back(fmt::format("{}: got {}: {} ({})", join_path(path), shown(node),
                                      unresolvable.reason, node.origin.phrase()));
      node.kind = Kind::Broken;
    } catch (const AlreadyReported&) {
      node.kind = Kind::Broken;
    }
    active_.pop_back();
  }

  bool is_active(const Node& node) const {
    return std::find(active_.begin(), active_.end(), &node) != active_.end();
  }

  // Expands text with ${...} in it. A single reference without other text keeps its type; anything else
  // becomes text.
  Node expand(std::string_view text, const Path& path, const Origin& origin) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t dollar = text.find("${", i);
      if (dollar == std::string_view::npos) {
        out += text.substr(i);
        break;
      }
      std::size_t slashes = 0;
      while (dollar - slashes > i && text[dollar - slashes - 1] == '\\') ++slashes;
      out += text.substr(i, dollar - slashes - i);
      out.append(slashes / 2, '\\');
      if (slashes % 2 == 1) {
        out += "${";
        i = dollar + 2;
        continue;
      }
      const std::size_t end = closing_brace(text, dollar);
      Node value = evaluate(trimmed(text.substr(dollar + 2, end - dollar - 2)), path, origin);
      if (dollar == 0 && end + 1 == text.size()) return value;
      out += as_text(value);
      if (out.size() > kLongestText) throw Unresolvable{"the text is too long"};
      i = end + 1;
    }
    return make_scalar(Kind::Text, std::move(out), origin);
  }

  // Formats values as Python does, which OmegaConf's users expect.
  std::string as_text(const Node& value) const {
    switch (value.kind) {
      case Kind::Null: return "None";
      case Kind::Bool: return value.text == "true" ? "True" : "False";
      case Kind::List:
      case Kind::Map: throw Unresolvable{fmt::format("{} cannot be part of a text", shown(value))};
      default: return value.text;
    }
  }

  Node evaluate(std::string_view content, const Path& path, const Origin& origin) {
    const std::size_t colon = content.find(':');
    if (colon < content.find("${"))
      return call(trimmed(content.substr(0, colon)), content.substr(colon + 1), path, origin);
    return look_up(as_text(expand(content, path, origin)), path, origin);
  }

  Node call(std::string_view name, std::string_view text, const Path& path, const Origin& origin) {
    if (name == "get_local_run_dir")
      throw Unresolvable{
          "the resolver get_local_run_dir of direct-preference-optimization is not supported; "
          "local_run_dir=null gives the same folder"};
    if (name != "oc.env")
      throw Unresolvable{fmt::format("unknown resolver '{}', expected oc.env or a key", shown(name))};
    const std::vector<std::string> arguments = split_arguments(text);
    if (arguments.size() > 2)
      throw Unresolvable{"oc.env takes a name and at most one default (quote its commas)"};
    const std::string variable = as_text(expand(arguments[0], path, origin));
    if (variable.empty()) throw Unresolvable{"oc.env needs the name of a variable"};
    if (const char* const value = std::getenv(variable.c_str())) return environment_value(variable, value);
    if (arguments.size() == 1)
      throw Unresolvable{
          fmt::format("the environment variable {0} is not set; set it, or give a default: "
                      "${{oc.env:{0},default}}",
                      shown(variable))};
    return default_value(variable, arguments[1], path, origin);
  }

  Node environment_value(const std::string& variable, const std::string& value) {
    if (value.size() > kLongestText || first_bad_byte(value) != std::string::npos)
      throw Unresolvable{fmt::format(
          "the environment variable {} is longer than 64 KiB or not valid UTF-8 without control characters",
          shown(variable))};
    return make_scalar(Kind::Text, value, {Origin::Kind::Environment, variable});
  }

  // Treats the default as a value of the environment, so that the schema gives it the same type.
  Node default_value(const std::string& variable, std::string_view written, const Path& path,
                     const Origin& origin) {
    if (written == "null") return make_scalar(Kind::Null, "null", origin);
    const bool quoted = written.size() >= 2 && (written.front() == '\'' || written.front() == '"') &&
                        written.back() == written.front();
    Node value = expand(quoted ? written.substr(1, written.size() - 2) : written, path, origin);
    if (value.kind == Kind::Text)
      value.origin = {Origin::Kind::Environment, fmt::format("{} (not set: its default)", variable)};
    return value;
  }

  Node look_up(std::string reference, const Path& path, const Origin& origin) {
    Path target_path = absolute(reference, path);
    Node* const target = find_node(root_, target_path);
    if (!target || target_path.empty())
      throw Unresolvable{fmt::format("unknown key '{}'{}", shown(reference), did_you_mean_key(reference))};
    visit(*target, target_path);
    if (target->kind == Kind::Broken) throw AlreadyReported{};
    if (target->kind == Kind::Missing) throw Unresolvable{fmt::format("'{}' is not set", reference)};
    expanded_ += bytes_of(*target);
    if (expanded_ > kMostExpanded) throw Unresolvable{"the references expand to more than 4 MiB"};
    Node copy = *target;
    if (copy.origin.kind != Origin::Kind::Environment) copy.origin = origin;
    return copy;
  }

  // Resolves "a.b", "a[0]", and ".b" or "..b" relative to the map that contains the value.
  static Path absolute(std::string& reference, const Path& path) {
    for (std::size_t open; (open = reference.find('[')) != std::string::npos;) {
      const std::size_t close = reference.find(']', open);
      if (close == std::string::npos) throw Unresolvable{"'[' is not closed by ']'"};
      reference.erase(close, 1);
      reference[open] = '.';
    }
    const std::size_t dots = std::min(reference.find_first_not_of('.'), reference.size());
    if (dots == 0) return split_path(reference);
    if (dots > path.size()) throw Unresolvable{"it points above the top level"};
    Path target(path.begin(), path.end() - static_cast<std::ptrdiff_t>(dots));
    if (dots < reference.size())
      for (std::string& part : split_path(reference.substr(dots))) target.push_back(std::move(part));
    return target;
  }

  Node& root_;
  std::vector<std::string>& problems_;
  std::vector<const Node*> active_;
  std::size_t expanded_ = 0;
};

}  // namespace

void interpolate(Node& root, std::vector<std::string>& problems) { Resolver(root, problems).resolve_all(); }

void keep_interpolations(Node& root) {
  for (Node& child : root.children) keep_interpolations(child);
  if (root.kind != Kind::Text) return;
  std::string& text = root.text;
  for (std::size_t at = text.find("${"); at != text.npos; at = text.find("${", at + 2)) {
    std::size_t slashes = 0;
    while (slashes < at && text[at - slashes - 1] == '\\') ++slashes;
    if (slashes % 2 == 0) continue;
    text.erase(at - slashes, slashes / 2 + 1);
    at -= slashes / 2 + 1;
  }
}

std::string escape_interpolations(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t start = i;
    while (i < text.size() && text[i] == '\\') ++i;
    const bool before = text.compare(i, 2, "${") == 0;
    out.append(before ? 2 * (i - start) + 1 : i - start, '\\');
    if (i < text.size()) out += text[i];
  }
  return out;
}

}  // namespace dpo::config
