#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/characters.h"

namespace dpo::text::jinja {
namespace {

constexpr std::array<std::string_view, 26> kOperators = {  // longer ones first
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

std::string normalize_newlines(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r') {
      out += '\n';
      if (at + 1 < text.size() && text[at + 1] == '\n') ++at;
    } else {
      out += text[at];
    }
  }
  return out;
}

bool is_name_character(char c) { return is_ascii_letter(c) || is_ascii_digit(c) || c == '_'; }

// Reads the digits of \xhh, \uhhhh or \Uhhhhhhhh at `at`, and moves `at` after them.
bool read_hex(std::string_view text, std::size_t& at, std::size_t digits, char32_t& code) {
  const std::string_view part = text.substr(at, digits);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number, 16);
  code = number;
  at += digits;
  return error == std::errc() && end == part.data() + digits;
}

constexpr std::string_view kSimpleEscapes = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";

// Decodes the text between the quotes of a string literal. Sets `error` to a message if it is not valid.
std::string decode_string_literal(std::string_view text, std::string& error) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at++];
      continue;
    }
    const char c = text[++at];
    std::size_t simple = 0;
    while (simple < kSimpleEscapes.size() && kSimpleEscapes[simple] != c) simple += 2;
    if (simple < kSimpleEscapes.size()) {
      out += kSimpleEscapes[simple + 1];
      ++at;
    } else if (c == '\n') {
      ++at;  // a line continuation
    } else if (c == 'x' || c == 'u' || c == 'U') {
      char32_t code = 0;
      if (!read_hex(text, ++at, c == 'x' ? 2 : c == 'u' ? 4 : 8, code)) {
        error = fmt::format("truncated \\{} escape", c);
        return out;
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        error = fmt::format("\\{} escape is not a character", c);
        return out;
      }
      append_utf8(out, code);
    } else if (c == 'N' || (c >= '0' && c <= '7') || static_cast<unsigned char>(c) >= 0x80) {
      error =
          fmt::format("the escape \\{} is not supported", text.substr(at, code_point_at(text, at).length));
      return out;
    } else {
      out += '\\';
      out += c;
      ++at;
    }
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(normalize_newlines(source)) {
    if (source_.ends_with('\n')) source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts(std::string_view text) const { return rest().starts_with(text); }

  // Returns a position by counting on from the last one requested. Positions only grow.
  Position position_of(std::size_t at) {
    for (; counted_ < at; ++counted_) {
      if (source_[counted_] == '\n')
        position_ = {position_.line + 1, 1};
      else if (!continues_character(source_[counted_]))
        ++position_.column;
    }
    return position_;
  }

  void add(TokenType type, std::string text, Value number = {}) {
    tokens_.push_back({type, std::move(text), std::move(number), position_of(at_)});
  }

  [[noreturn]] void fail(const std::string& message) { throw SyntaxError(position_of(at_), message); }

  std::size_t skip_space(std::size_t at) const {
    while (at < source_.size()) {
      const CodePoint point = code_point_at(source_, at);
      if (!is_space(point.code)) break;
      at += point.length;
    }
    return at;
  }

  // Reads text up to the next tag, and then the tag.
  void read_data() {
    std::size_t tag = at_;
    do {
      tag = source_.find('{', tag);
      if (tag == source_.npos || tag + 1 >= source_.size()) {
        add_data(source_.size(), source_.size());
        return;
      }
      ++tag;
    } while (source_[tag] != '%' && source_[tag] != '{' && source_[tag] != '#');
    const std::size_t start = tag - 1;
    const char kind = source_[tag];
    std::size_t after = tag + 1;
    const char sign = after < source_.size() ? source_[after] : '\0';
    if (sign == '-' || sign == '+') ++after;
    add_data(start, end_of_data(start, sign, kind != '{'));
    if (kind == '#')
      skip_comment(after);
    else if (const std::size_t end = kind == '%' ? end_of_raw_begin(after) : 0)
      read_raw(end);
    else
      read_tag(after, kind);
  }

  // Returns where the text before a tag ends after whitespace is stripped.
  std::size_t end_of_data(std::size_t start, char sign, bool is_block) const {
    const std::string_view text = std::string_view(source_).substr(at_, start - at_);
    if (sign == '-') return at_ + strip(text, Ends::kRight).size();
    if (sign == '+' || !is_block) return start;
    const std::size_t newline = text.rfind('\n');
    if (newline == text.npos && !line_starting_) return start;
    const std::size_t line = newline == text.npos ? 0 : newline + 1;
    return strip(text.substr(line), Ends::kBoth).empty() ? at_ + line : start;
  }

  void add_data(std::size_t next, std::size_t end) {
    if (end > at_) add(TokenType::kData, source_.substr(at_, end - at_));
    at_ = next;
  }

  // Moves to the end of a tag. Jinja2 looks at the last character of the tag to determine whether a line
  // starts.
  void move_after(std::size_t end) {
    line_starting_ = end > 0 && source_[end - 1] == '\n';
    at_ = end;
  }

  // Returns the end of a tag that closes at `at`: after -%} whitespace is stripped, after %} one newline.
  std::size_t end_of_close(std::size_t at, std::string_view close, bool trim_newline) const {
    const std::string_view text = std::string_view(source_).substr(at);
    if (text.starts_with('-') && text.substr(1).starts_with(close)) return skip_space(at + 1 + close.size());
    if (trim_newline && text.starts_with('+') && text.substr(1).starts_with(close))
      return at + 1 + close.size();
    if (!text.starts_with(close)) return 0;
    at += close.size();
    return trim_newline && at < source_.size() && source_[at] == '\n' ? at + 1 : at;
  }

  void skip_comment(std::size_t after) {
    if (after >= source_.size()) return move_after(source_.size());
    for (std::size_t at = after; at < source_.size(); ++at)
      if (const std::size_t end = end_of_close(at, "#}", true)) return move_after(end);
    fail("missing end of comment");
  }

  // Returns the position after {% raw %}, or 0 if it is another tag. No newline is trimmed there.
  std::size_t end_of_raw_begin(std::size_t at) const {
    at = skip_space(at);
    if (!std::string_view(source_).substr(at).starts_with("raw")) return 0;
    at = skip_space(at + 3);
    const std::string_view text = std::string_view(source_).substr(at);
    if (text.starts_with("-%}")) return skip_space(at + 3);
    return text.starts_with("%}") ? at + 2 : 0;
  }

  void read_raw(std::size_t start) {
    move_after(start);
    if (at_ >= source_.size()) return;
    for (std::size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      std::size_t at = tag + 2;
      const char sign = at < source_.size() ? source_[at] : '\0';
      if (sign == '-' || sign == '+') ++at;
      at = skip_space(at);
      if (!std::string_view(source_).substr(at).starts_with("endraw")) continue;
      const std::size_t end = end_of_close(skip_space(at + 6), "%}", true);
      if (end == 0) continue;
      add_data(tag, end_of_data(tag, sign, true));
      return move_after(end);
    }
    fail("missing end of raw");
  }

  void read_tag(std::size_t after, char kind) {
    const bool is_block = kind == '%';
    add(is_block ? TokenType::kBlockBegin : TokenType::kVariableBegin, "");
    at_ = after;
    std::string open;  // brackets that are not closed yet
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const std::size_t end = end_of_close(at_, is_block ? "%}" : "}}", is_block)) {
          add(is_block ? TokenType::kBlockEnd : TokenType::kVariableEnd, "");
          return move_after(end);
        }
      }
      read_token(open);
    }
  }

  void read_token(std::string& open) {
    const std::size_t space = skip_space(at_);
    if (space > at_) {
      at_ = space;
      return;
    }
    const char c = source_[at_];
    if (is_ascii_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    if (is_name_character(c)) return read_name();
    for (const std::string_view candidate : kOperators)
      if (starts(candidate)) return read_operator(candidate, open);
    fail(fmt::format("unexpected character '{}'", rest().substr(0, code_point_at(source_, at_).length)));
  }

  void read_operator(std::string_view text, std::string& open) {
    if (text == "(" || text == "[" || text == "{") {
      open += text == "(" ? ')' : text == "[" ? ']' : '}';
    } else if (text == ")" || text == "]" || text == "}") {
      if (open.empty()) fail(fmt::format("unexpected '{}'", text));
      if (open.back() != text[0]) fail(fmt::format("unexpected '{}', expected '{}'", text, open.back()));
      open.pop_back();
    }
    add(TokenType::kOperator, std::string(text));
    at_ += text.size();
  }

  void read_name() {
    const std::size_t end = end_of(at_, is_name_character);
    add(TokenType::kName, source_.substr(at_, end - at_));
    at_ = end;
  }

  std::size_t end_of(std::size_t at, bool (*accepts)(char)) const {
    while (at < source_.size() && accepts(source_[at])) ++at;
    return at;
  }

  // Returns where the exponent at `at` ends, or `at` if there is none.
  std::size_t end_of_exponent(std::size_t at) const {
    std::size_t digits = at;
    if (digits < source_.size() && (source_[digits] == 'e' || source_[digits] == 'E')) ++digits;
    if (digits == at) return at;
    if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
    const std::size_t end = end_of(digits, is_ascii_digit);
    return end > digits ? end : at;
  }

  void read_number() {
    const std::size_t whole = end_of(at_, is_ascii_digit);
    std::size_t end = whole;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // in a.1.2 there are only integers
    if (!after_dot) {
      if (end + 1 < source_.size() && source_[end] == '.' && is_ascii_digit(source_[end + 1]))
        end = end_of(end + 1, is_ascii_digit);
      end = end_of_exponent(end);
    }
    const bool is_integer = end == whole;
    const std::string text = source_.substr(at_, end - at_);
    const bool leads_with_zero = is_integer && text[0] == '0' && text.find_first_not_of('0') != text.npos;
    if (leads_with_zero || (end < source_.size() && is_name_character(source_[end])))
      fail(fmt::format("the number '{}' is not supported",
                       source_.substr(at_, end_of(end, is_name_character) - at_)));
    errno = 0;
    const Value number = is_integer ? Value(std::strtoll(text.c_str(), nullptr, 10))
                                    : Value(std::strtod(text.c_str(), nullptr));
    if (is_integer && errno == ERANGE) fail("an integer does not fit into 64 bits");
    add(is_integer ? TokenType::kInteger : TokenType::kFloat, text, number);
    at_ = end;
  }

  void read_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail(fmt::format("unexpected character '{}'", quote));
    std::string error;
    std::string value =
        decode_string_literal(std::string_view(source_).substr(at_ + 1, end - at_ - 1), error);
    if (!error.empty()) fail(error);
    add(TokenType::kString, std::move(value));
    at_ = end + 1;
  }

  std::string source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
  std::size_t counted_ = 0;
  Position position_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kData: return "text";
    case TokenType::kVariableBegin: return "{{";
    case TokenType::kVariableEnd: return "}}";
    case TokenType::kBlockBegin: return "{%";
    case TokenType::kBlockEnd: return "%}";
    case TokenType::kEnd: return "the end of the template";
    default: return token.text;
  }
}

}  // namespace dpo::text::jinja
