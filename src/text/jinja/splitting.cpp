#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/characters.h"

namespace dpo::text::jinja {
namespace {

template <class Strips>
std::string_view strip_if(std::string_view text, Ends ends, const Strips& strips) {
  if (ends != Ends::kRight)
    while (!text.empty()) {
      const CodePoint first = code_point_at(text, 0);
      if (!strips(first.code)) break;
      text.remove_prefix(first.length);
    }
  if (ends != Ends::kLeft)
    while (!text.empty()) {
      const std::size_t last = previous_start(text, text.size());
      if (!strips(code_point_at(text, last).code)) break;
      text = text.substr(0, last);
    }
  return text;
}

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

std::size_t start_of_trailing_word(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0) {
    const std::size_t last = previous_start(text, at);
    if (is_space(code_point_at(text, last).code)) break;
    at = last;
  }
  return at;
}

std::size_t end_of_leading_word(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (is_space(point.code)) break;
    at += point.length;
  }
  return at;
}

void add_part(std::vector<std::string_view>& parts, std::string_view part) {
  spend();
  charge_text(parts.size() * sizeof part, sizeof part);
  parts.push_back(part);
}

}  // namespace

std::string_view strip(std::string_view text, Ends ends, const std::string_view* characters) {
  if (!characters) return strip_if(text, ends, is_space);
  const std::u32string set = decode(*characters);
  return strip_if(text, ends, [&](char32_t code) { return set.find(code) != set.npos; });
}

std::vector<std::string_view> split_space(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> parts;
  for (text = strip(text, Ends::kLeft); !text.empty(); text = strip(text, Ends::kLeft)) {
    if (limit >= 0 && parts.size() == static_cast<std::size_t>(limit)) {
      add_part(parts, text);
      break;
    }
    const std::size_t end = end_of_leading_word(text);
    add_part(parts, text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::int64_t limit) {
  std::vector<std::string_view> parts;
  while (limit < 0 || parts.size() < static_cast<std::size_t>(limit)) {
    const std::size_t end = text.find(separator);
    if (end == text.npos) break;
    add_part(parts, text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  add_part(parts, text);
  return parts;
}

std::vector<std::string_view> split_space_from_right(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> parts;
  for (text = strip(text, Ends::kRight); !text.empty(); text = strip(text, Ends::kRight)) {
    if (limit >= 0 && parts.size() == static_cast<std::size_t>(limit)) {
      add_part(parts, text);
      break;
    }
    const std::size_t start = start_of_trailing_word(text);
    add_part(parts, text.substr(start));
    text = text.substr(0, start);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_from_right(std::string_view text, std::string_view separator,
                                               std::int64_t limit) {
  std::vector<std::string_view> parts;
  while (limit < 0 || parts.size() < static_cast<std::size_t>(limit)) {
    const std::size_t start = text.rfind(separator);
    if (start == text.npos) break;
    add_part(parts, text.substr(start + separator.size()));
    text = text.substr(0, start);
  }
  add_part(parts, text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const std::size_t end = at;
    at += point.length;
    if (!is_line_end(point.code)) continue;
    if (point.code == '\r' && at < text.size() && text[at] == '\n') ++at;
    add_part(lines, text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) add_part(lines, text.substr(start));
  return lines;
}

std::string replace_all(std::string_view text, std::string_view old_part, std::string_view new_part,
                        std::int64_t limit) {
  std::string out;
  std::size_t at = 0;
  const auto add = [&](std::string_view piece) {
    charge_text(out.size(), piece.size());
    out += piece;
  };
  for (std::int64_t done = 0; limit < 0 || done < limit; ++done) {
    if (old_part.empty()) {  // inserts before each character and at the end
      add(new_part);
      if (at == text.size()) return out;
      const std::size_t length = code_point_at(text, at).length;
      add(text.substr(at, length));
      at += length;
      continue;
    }
    const std::size_t found = text.find(old_part, at);
    if (found == text.npos) break;
    add(text.substr(at, found - at));
    add(new_part);
    at = found + old_part.size();
  }
  add(text.substr(at));
  return out;
}

}  // namespace dpo::text::jinja
