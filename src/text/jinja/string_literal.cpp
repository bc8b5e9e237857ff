#include "text/jinja/string_literal.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace dpo::text::jinja {
namespace {

// Escapes a character that is not ASCII. Jinja2 escapes the whole text to ASCII and then reads it as Python's
// "unicode-escape", so a backslash before such a character escapes the backslash of its escape.
std::string escape_non_ascii(char32_t code) {
  const auto number = static_cast<std::uint32_t>(code);
  return number < 0x100     ? fmt::format("x{:02x}", number)
         : number < 0x10000 ? fmt::format("u{:04x}", number)
                            : fmt::format("U{:08x}", number);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Reads the digits of \xhh, \uhhhh or \Uhhhhhhhh at `at`, and moves `at` after them.
bool read_hex(std::string_view text, std::size_t& at, int digits, char32_t& code) {
  code = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    const int digit = at < text.size() ? hex_digit(text[at]) : -1;
    if (digit < 0) return false;
    code = code * 16 + static_cast<char32_t>(digit);
  }
  return true;
}

char32_t read_octal(std::string_view text, std::size_t& at) {
  char32_t code = 0;
  for (int i = 0; i < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i, ++at)
    code = code * 8 + static_cast<char32_t>(text[at] - '0');
  return code;
}

constexpr std::string_view kSimpleEscapes = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";

}  // namespace

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
    if (static_cast<unsigned char>(c) >= 0x80) {
      const CodePoint point = code_point_at(text, at);
      out += "\\" + escape_non_ascii(point.code);
      at += point.length;
    } else if (simple < kSimpleEscapes.size()) {
      out += kSimpleEscapes[simple + 1];
      ++at;
    } else if (c == '\n') {
      ++at;  // a line continuation
    } else if (c >= '0' && c <= '7') {
      append_utf8(out, read_octal(text, at));
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
    } else if (c == 'N') {
      error = "\\N{...} escapes are not supported";
      return out;
    } else {
      out += '\\';
      out += c;
      ++at;
    }
  }
  return out;
}

}  // namespace dpo::text::jinja
