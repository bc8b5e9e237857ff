#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dpo {

// Explains to the author of a text why it is not JSON.
struct JsonProblem {
  std::size_t at = 0;                // the byte
  std::size_t line = 1, column = 1;  // starting at 1; the column counts characters
  bool ends_early = false;           // true if the text ends before its value does
  std::string what;                  // "found NaN, expected a value; JSON has no NaN, write null"
  std::string near;                  // see piece_of_line
};

// Returns the printable text around a byte, within its line, because lines may be long.
std::string piece_of_line(std::string_view text, std::size_t at);

// Returns nullopt if the text is JSON. `whole` is the word for the text in messages: "line", "file".
std::optional<JsonProblem> json_problem(std::string_view text, std::string_view whole);

// Returns "not valid JSON at line 3, column 7: found ...; near '...'", and whether the text may be cut off.
std::string why_not_json(std::string_view text);

// Returns true if lists and objects are nested deeper than kDeepestJson levels, more than any file or answer
// that dpo reads. Parsing is not recursive, but copying and writing a value are, and would overflow the
// stack.
inline constexpr std::size_t kDeepestJson = 64;
bool is_nested_deeply(std::string_view json);

}  // namespace dpo
