#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dpo {

// Why a text is not JSON, in words for whoever wrote it.
struct JsonProblem {
  std::size_t at = 0;                // the byte
  std::size_t line = 1, column = 1;  // in lines and characters
  bool ends_early = false;           // the text ends before its value does
  std::string what;                  // "found NaN, expected a value; JSON has no NaN, write null"
  std::string near;                  // piece_of_line
};

// The piece of a text's line around a byte, printable: lines may be long.
std::string piece_of_line(std::string_view text, std::size_t at);

// Nothing if it is JSON. `whole` is what ends where the text ends: "line", "file".
std::optional<JsonProblem> json_problem(std::string_view text, std::string_view whole);

// "not valid JSON at line 3, column 7: found ...; near '...'", and whether it may be cut off
std::string why_not_json(std::string_view text);

// Returns whether lists and objects are nested deeper than kDeepestJson levels, as in no file of a model.
// Parsing is not recursive, but copying and writing a value are, and would overflow the stack.
inline constexpr std::size_t kDeepestJson = 64;
bool is_nested_deeply(std::string_view json);

}  // namespace dpo
