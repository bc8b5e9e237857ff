#include "report/html.h"

#include <utility>

#include <fmt/format.h>

#include "base/quantity.h"
#include "base/utf8.h"

namespace dpo::report {
namespace {

std::string characters(std::size_t count) { return plural(static_cast<std::int64_t>(count), "character"); }

}  // namespace

std::string escape(std::string_view text) {
  if (!is_valid_utf8(text)) return escape(replace_invalid_utf8(text));
  std::string html;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\r' && text.substr(i + 1).starts_with('\n')) continue;  // a Windows line end
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      case '\'': html += "&#39;"; break;
      case '\n':
      case '\t': html += c; break;
      default:
        if (byte < 0x20 || byte == 0x7F)
          html += "·";
        else
          html += c;
    }
  }
  return html;
}

std::string beginning_of(const std::string& text, std::size_t most) {
  const std::string valid = replace_invalid_utf8(text);
  const std::size_t all = count_characters(valid);
  if (all <= most) return valid;
  return fmt::format("{} … ({} more)", valid.substr(0, byte_of_character(valid, most)),
                     characters(all - most));
}

std::string end_of(const std::string& text, std::size_t most) {
  const std::string valid = replace_invalid_utf8(text);
  const std::size_t all = count_characters(valid);
  if (all <= most) return valid;
  return fmt::format("({} before) … {}", characters(all - most),
                     valid.substr(byte_of_character(valid, all - most)));
}

std::string ending_on_a_line(const std::string& text, std::size_t most) {
  const std::string valid = replace_invalid_utf8(text);
  const std::size_t all = count_characters(valid);
  std::string line = all > most ? "…" : "";
  bool is_space = all > most;
  for (const char c : valid.substr(byte_of_character(valid, all > most ? all - most : 0))) {
    const bool was_space = std::exchange(is_space, c == ' ' || c == '\n' || c == '\t' || c == '\r');
    if (is_space) continue;
    if (was_space && !line.empty()) line += ' ';
    line += c;
  }
  return line;
}

}  // namespace dpo::report
