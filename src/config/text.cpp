#include "config/text.h"

#include <algorithm>

#include <fmt/format.h>

namespace dpo::config {

std::size_t first_bad_byte(std::string_view text) {
  const auto continues = [&](std::size_t i) { return i < text.size() && (text[i] & 0xC0) == 0x80; };
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) return i;
      ++i;
      continue;
    }
    const std::size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4) return i;
    for (std::size_t k = 1; k < length; ++k)
      if (!continues(i + k)) return i;
    const auto second = static_cast<unsigned char>(text[i + 1]);
    const bool overlong = (c == 0xE0 && second < 0xA0) || (c == 0xF0 && second < 0x90);
    const bool surrogate = c == 0xED && second >= 0xA0;
    if (overlong || surrogate || (c == 0xF4 && second >= 0x90)) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const bool is_utf8 = first_bad_byte(text) == std::string_view::npos;
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (out.size() >= kLongest && (byte & 0xC0) != 0x80)
      return out + "...";  // never inside a UTF-8 character
    if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !is_utf8))
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

std::string wrapped(std::string_view text, const std::string& first, const std::string& rest) {
  constexpr std::size_t kWidth = 100;
  std::string out, line = first;
  bool begins = true;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(start, end - start);
    if (!begins && line.size() + word.size() + 1 > kWidth) {
      out += line + "\n";
      line = rest;
      begins = true;
    }
    line += begins ? "" : " ";
    line += word;
    begins = false;
    start = end + 1;
  }
  return out + line + "\n";
}

}  // namespace dpo::config
