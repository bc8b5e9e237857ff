#include "config/override.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"
#include "config/scalar.h"

namespace dpo::config {
namespace {

using Kind = Node::Kind;

constexpr std::string_view kPunctuation = "/-\\+.$%*@?|:_";  // in unquoted text, in addition to letters
constexpr std::string_view kEscapable = "\\()[]{}:=, \t";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

class Reader {
 public:
  explicit Reader(const std::string& argument) : text_(argument) {}

  Override read() {
    Override result;
    result.text = text_;
    result.kind = read_prefix();
    result.key = read_key();
    if (at_end() && result.kind == Override::Kind::Delete) return result;
    if (at_end()) fail("missing '='; expected KEY=VALUE");
    if (next() != '=') fail_key();
    ++at_;
    skip_blanks();
    if (at_end()) {
      result.value = make_scalar(Kind::Text, "", origin());
      return result;
    }
    result.value = read_element(0);
    if (!at_end() && next() == ',')
      fail(
          "several values are a sweep, which is not supported; for a list write [a,b], for text quote it: "
          "'a,b'");
    if (!at_end()) fail_at("is not expected here; to take it as text, put the value in quotes");
    return result;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char next() const { return text_[at_]; }
  Origin origin() const { return {Origin::Kind::CommandLine, text_}; }
  void skip_blanks() {
    while (!at_end() && is_blank(next())) ++at_;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}: {} (command line)", shown(text_), what));
  }

  [[noreturn]] void fail_at(const std::string& what) const {
    std::size_t length = 1;
    while (at_ + length < text_.size() && continues_character(text_[at_ + length])) ++length;
    fail(fmt::format("'{}' at character {} {}", shown(std::string_view(text_).substr(at_, length)), at_ + 1,
                     what));
  }

  [[noreturn]] void fail_key() const {
    if (next() == '@') fail("packages (group@package) are not supported; expected KEY=VALUE");
    fail_at("cannot be part of a key; expected names joined by dots, then '='");
  }

  Override::Kind read_prefix() {
    if (text_.starts_with("++")) return at_ = 2, Override::Kind::Force;
    if (text_.starts_with("+")) return at_ = 1, Override::Kind::Add;
    if (text_.starts_with("~")) return at_ = 1, Override::Kind::Delete;
    return Override::Kind::Change;
  }

  std::string read_key() {
    const std::size_t start = at_;
    std::size_t parts = 1;
    bool part_starts = true;
    while (!at_end() && next() != '=') {
      const char c = next();
      const bool starts = is_ascii_letter(c) || c == '_' || c == '$' || (is_ascii_digit(c) && at_ > start);
      if (c == '.' && !part_starts) {
        part_starts = true;
        ++parts;
      } else if (starts || (!part_starts && (is_ascii_digit(c) || c == '-'))) {
        part_starts = false;
      } else {
        fail_key();
      }
      ++at_;
    }
    if (at_ == start) fail("missing key; expected KEY=VALUE");
    if (part_starts) fail("the key ends in a dot; expected names joined by dots");
    if (at_ - start > kLongestName) fail(fmt::format("the key is longer than {} characters", kLongestName));
    if (parts > kDeepestNesting) fail(fmt::format("the key has more than {} parts", kDeepestNesting));
    return text_.substr(start, at_ - start);
  }

  Node read_element(std::size_t depth) {
    if (depth >= kDeepestNesting) fail(fmt::format("nested more than {} levels deep", kDeepestNesting));
    if (next() == '[') return read_list(depth);
    if (next() == '{') return read_map(depth);
    if (next() == '\'' || next() == '"') return read_quoted();
    return read_plain(kPunctuation, "value");
  }

  // Reads the separator after an element of a list or map. Returns true for a comma, false for the end.
  bool read_separator(char end, std::string_view what) {
    skip_blanks();
    if (at_end()) fail(fmt::format("the {} is not closed; expected '{}'", what, end));
    if (next() != ',' && next() != end)
      fail_at(fmt::format("is not expected here; expected ',' or '{}'", end));
    const bool more = next() == ',';
    ++at_;
    skip_blanks();
    if (more && at_end()) fail(fmt::format("the {} is not closed; expected '{}'", what, end));
    return more;
  }

  Node read_list(std::size_t depth) {
    Node list;
    list.kind = Kind::List;
    list.origin = origin();
    ++at_;
    skip_blanks();
    if (!at_end() && next() == ']') return ++at_, list;
    do {
      if (at_end()) fail("the list is not closed; expected ']'");
      list.children.push_back(read_element(depth + 1));
    } while (read_separator(']', "list"));
    return list;
  }

  Node read_map(std::size_t depth) {
    Node map = make_map(origin());
    ++at_;
    skip_blanks();
    if (!at_end() && next() == '}') return ++at_, map;
    do {
      if (at_end()) fail("the map is not closed; expected '}'");
      const bool quoted = next() == '\'' || next() == '"';
      const std::string name = quoted ? read_quoted().text : read_plain("/-\\+.$%*@?|_", "name").text;
      if (name.size() > kLongestName) fail(fmt::format("a name is longer than {} characters", kLongestName));
      if (at_end() || next() != ':') fail("a map is written {name: value}; missing ':' after a name");
      ++at_;
      skip_blanks();
      if (at_end()) fail("the map is not closed; expected '}'");
      Node value = read_element(depth + 1);
      value.name = name;
      if (Node* present = find_child(map, name))
        *present = std::move(value);
      else
        map.children.push_back(std::move(value));
    } while (read_separator('}', "map"));
    return map;
  }

  // Reads a quoted text. A backslash is plain text unless the backslashes precede a quote of the same kind.
  Node read_quoted() {
    const char quote = next();
    std::string text;
    for (++at_; !at_end(); ++at_) {
      std::size_t slashes = 0;
      while (!at_end() && next() == '\\') ++slashes, ++at_;
      const bool before_quote = !at_end() && next() == quote;
      text.append(before_quote ? slashes / 2 : slashes, '\\');
      if (at_end()) break;
      if (before_quote && slashes % 2 == 0) {
        ++at_;
        skip_blanks();
        return make_scalar(Kind::Text, text, origin());
      }
      text += next();
    }
    fail(fmt::format("the quote {} is not closed", quote));
  }

  // Reads ${...} with balanced braces inside it.
  void read_interpolation(std::string& text) {
    const std::size_t start = at_;
    std::size_t open = 0;
    for (; !at_end(); ++at_) {
      if (next() == '{') ++open;
      if (next() == '}' && --open == 0) break;
    }
    if (at_end()) fail("'${' is not closed; expected '}'");
    ++at_;
    text.append(text_, start, at_ - start);
  }

  Node read_plain(std::string_view punctuation, std::string_view what) {
    std::string text;
    // Hydra rejects "~/", but a shell does not expand the ~ of key=~/path.
    if (std::string_view(text_).substr(at_).starts_with("~/")) text += text_[at_++];
    bool verbatim = true;       // without escapes, it may be a number
    std::size_t blanks_at = 0;  // end of the text without trailing blanks
    while (!at_end()) {
      const char c = next();
      if (c == '\\' && at_ + 1 < text_.size() && kEscapable.find(text_[at_ + 1]) != std::string_view::npos) {
        text += text_[at_ + 1];
        at_ += 2;
        verbatim = false;
        blanks_at = text.size();
      } else if (c == '$' && at_ + 1 < text_.size() && text_[at_ + 1] == '{') {
        read_interpolation(text);
        blanks_at = text.size();
      } else if (is_ascii_letter(c) || is_ascii_digit(c) || is_blank(c) ||
                 punctuation.find(c) != std::string_view::npos || static_cast<unsigned char>(c) >= 0x80) {
        text += c;
        ++at_;
        if (!is_blank(c)) blanks_at = text.size();
      } else {
        break;
      }
    }
    text.resize(blanks_at);
    if (!at_end() && next() == '(') fail_function(text);
    if (text.empty()) fail_empty(what);
    return verbatim ? argument_scalar(std::move(text), origin())
                    : make_scalar(Kind::Text, std::move(text), origin());
  }

  [[noreturn]] void fail_function(const std::string& name) const {
    if (name == "choice" || name == "range" || name == "interval" || name == "glob")
      fail(fmt::format("{}() is a sweep, which is not supported; write one value", name));
    fail_at("starts a function, which is not supported; write the value, or quote the text");
  }

  [[noreturn]] void fail_empty(std::string_view what) const {
    if (at_end()) fail(fmt::format("a {} is missing at the end", what));
    fail_at(
        fmt::format("is found where a {} is expected; to take it as text, put the {} in quotes", what, what));
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

Override parse_override(const std::string& argument) {
  const std::size_t bad = first_bad_byte(argument);
  if (bad != std::string::npos)
    throw UserError(fmt::format(
        "{}: byte 0x{:02x} is not allowed; expected UTF-8 without control characters "
        "(command line)",
        shown(std::string_view(argument).substr(0, bad)), static_cast<unsigned char>(argument[bad])));
  return Reader(argument).read();
}

}  // namespace dpo::config
