#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dpo {

// Unlike isalpha and isdigit, these do not depend on the locale.
inline bool is_ascii_letter(char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); }
inline bool is_ascii_digit(char c) { return '0' <= c && c <= '9'; }

struct CodePoint {
  char32_t code;
  std::uint32_t length;  // bytes
};

// Decodes the code point that starts at `at`. The text must be valid UTF-8.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// Returns true if a byte of valid UTF-8 continues a character, or false if it begins one.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Returns where the code point before `at` starts. `at` must not be 0.
inline std::size_t previous_start(std::string_view text, std::size_t at) {
  do --at;
  while (continues_character(text[at]));
  return at;
}

// count_characters returns the number of code points of a valid text. byte_of_character returns the byte
// where character `index` begins, or the text's size.
std::size_t count_characters(std::string_view text);
std::size_t byte_of_character(std::string_view text, std::size_t index);

void append_utf8(std::string& out, char32_t code);

// Returns the position of the first byte that is not valid UTF-8, or the size if there is none.
std::size_t first_invalid_utf8(std::string_view text);

// Replaces each maximal part that cannot start a character with one U+FFFD, like Python's errors="replace".
std::string replace_invalid_utf8(std::string_view text);
inline constexpr std::string_view kReplacementCharacter = "\uFFFD";

inline bool is_valid_utf8(std::string_view text) { return first_invalid_utf8(text) == text.size(); }

}  // namespace dpo
