#include "config/text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"

namespace dpo::config {

std::size_t first_bad_byte(std::string_view text) {
  const auto is_control = [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  };
  const std::string_view valid = text.substr(0, first_invalid_utf8(text));
  const auto control = std::find_if(valid.begin(), valid.end(), is_control);
  if (control != valid.end()) return static_cast<std::size_t>(control - valid.begin());
  return valid.size() < text.size() ? valid.size() : std::string_view::npos;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const bool is_utf8 = first_bad_byte(text) == std::string_view::npos;
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (out.size() >= kLongest && !continues_character(c)) return out + "...";
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
