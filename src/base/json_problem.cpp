#include "base/json_problem.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/utf8.h"

namespace dpo {
namespace {

// Limits the depth, because the reader is recursive.
class DepthLimit {
 public:
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t) { return true; }
  bool number_unsigned(std::uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool key(std::string&) { return true; }
  bool start_object(std::size_t) { return ++depth_ < kDeepest; }
  bool start_array(std::size_t) { return ++depth_ < kDeepest; }
  bool end_object() { return --depth_, true; }
  bool end_array() { return --depth_, true; }

  static constexpr std::size_t kDeepest = 1000;

 private:
  std::size_t depth_ = 0;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }
bool is_word(char c) { return is_ascii_letter(c) || is_ascii_digit(c) || c == '_' || c == '.' || c == '-'; }

// Returns the word or the character at `at`.
std::string_view token_at(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 24;
  std::size_t end = at;
  while (end < text.size() && end - at < kLongest && is_word(text[end])) ++end;
  return text.substr(at, end > at ? end - at : code_point_at(text, at).length);
}

std::string in_words(std::string_view token) {
  if (token == "'") return "a single quote";
  if (is_control(token[0])) return fmt::format("the control character 0x{:02x}", token[0]);
  return is_word(token[0]) ? std::string(token) : fmt::format("'{}'", token);
}

bool follows_comma(std::string_view text, std::size_t at) {
  while (at > 0 && is_space(text[at - 1])) --at;
  return at > 0 && text[at - 1] == ',';
}

// Suggests the JSON for syntax that people write by habit from other languages.
std::string remedy_for(std::string_view token, bool after_comma) {
  if (token == "'") return "; JSON has no single quotes";
  if (token == "NaN" || token == "nan" || token.ends_with("Infinity"))
    return fmt::format("; JSON has no {}, write null", token);
  if (token == "None") return "; write null";
  if (token == "True" || token == "False") return "; write true or false";
  if (after_comma && (token == "}" || token == "]")) return "; remove the comma before it";
  return "";
}

std::string broken_string(std::string_view text, std::size_t at, std::string_view whole) {
  if (at == text.size()) return fmt::format("the {} ends inside a string", whole);
  if (text[at] == '\n' || text[at] == '\r') return "found a line break inside a string; write it as \\n";
  if (text[at] == '\t') return "found a tab inside a string; write it as \\t";
  return fmt::format("found the control character 0x{0:02x} inside a string; write it as \\u{0:04x}",
                     text[at]);
}

std::string broken_escape(std::string_view text, std::size_t at, std::string_view whole) {
  if (at + 1 == text.size()) return fmt::format("the {} ends inside a string", whole);
  if (text[at + 1] != 'u')
    return fmt::format("found '\\{}' inside a string; a backslash is written as \\\\",
                       is_control(text[at + 1]) ? "" : token_at(text, at + 1));
  std::size_t end = at + 2;
  while (end < text.size() && end < at + 6 && is_word(text[end])) ++end;
  return fmt::format(
      "'{}' inside a string is not a character; expected \\u and four hexadecimal digits, or two "
      "of these for a character beyond them",
      text.substr(at, end - at));
}

std::string wanted(JsonExpected expected, std::string_view whole) {
  switch (expected) {
    case JsonExpected::Name: return "a name in double quotes";
    case JsonExpected::Colon: return "a colon after the name";
    case JsonExpected::EndOfObject: return "a comma or '}'";
    case JsonExpected::EndOfList: return "a comma or ']'";
    case JsonExpected::EndOfText: return fmt::format("the end of the {} after the value", whole);
    default: return "a value";
  }
}

std::string in_words(JsonExpected expected, std::string_view text, std::size_t at, std::string_view whole) {
  switch (expected) {
    case JsonExpected::Utf8:
      return fmt::format("the byte 0x{:02x} is not UTF-8; save the file as UTF-8",
                         static_cast<unsigned char>(text[at]));
    case JsonExpected::EndOfString: return broken_string(text, at, whole);
    case JsonExpected::Escape: return broken_escape(text, at, whole);
    case JsonExpected::SmallNumber: return fmt::format("the number {} is too large", token_at(text, at));
    case JsonExpected::Accepted: return fmt::format("nested more than {} levels deep", DepthLimit::kDeepest);
    default: break;
  }
  if (at == text.size()) return fmt::format("the {} ends, expected {}", whole, wanted(expected, whole));
  const std::string_view token = token_at(text, at);
  return fmt::format("found {}, expected {}{}", in_words(token), wanted(expected, whole),
                     remedy_for(token, follows_comma(text, at)));
}

// Returns where the line of a byte begins; npos + 1 is 0.
std::size_t line_begin(std::string_view text, std::size_t at) { return text.substr(0, at).rfind('\n') + 1; }

}  // namespace

std::string piece_of_line(std::string_view text, std::size_t at) {
  constexpr std::size_t kBefore = 30, kAfter = 30;
  const std::size_t first = line_begin(text, at), last = std::min(text.find('\n', at), text.size());
  std::size_t begin = at - std::min(kBefore, at - first), end = std::min(last, at + kAfter);
  while (begin > first && continues_character(text[begin])) --begin;
  while (end < last && continues_character(text[end])) ++end;
  std::string piece = replace_invalid_utf8(text.substr(begin, end - begin));
  std::ranges::replace_if(piece, is_control, ' ');
  return fmt::format("{}{}{}", begin > first ? "..." : "", piece, end < last ? "..." : "");
}

std::optional<JsonProblem> json_problem(std::string_view text, std::string_view whole) {
  DepthLimit limit;
  JsonReader reader(text, limit);
  if (reader.read()) return std::nullopt;
  JsonProblem problem;
  problem.at = reader.position();
  problem.what = in_words(reader.expected(), text, problem.at, whole);
  problem.ends_early = text.find_first_not_of('\\', problem.at) == text.npos;
  const std::string_view before = text.substr(0, problem.at);
  problem.line += static_cast<std::size_t>(std::ranges::count(before, '\n'));
  problem.column += count_characters(before.substr(line_begin(text, problem.at)));
  problem.near = piece_of_line(text, problem.at);
  return problem;
}

std::string why_not_json(std::string_view text) {
  const std::optional<JsonProblem> problem = json_problem(text, "text");
  if (!problem) return "not valid JSON";
  return fmt::format("not valid JSON at line {}, column {}: {}; near '{}'{}", problem->line, problem->column,
                     problem->what, problem->near, problem->ends_early ? "; is it complete?" : "");
}

bool is_nested_deeply(std::string_view json) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace dpo
