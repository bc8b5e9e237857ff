#include "base/shell.h"

#include <algorithm>
#include <string_view>

#include "base/utf8.h"

namespace dpo {
namespace {

bool is_plain(char c) {
  constexpr std::string_view kPunctuation = "/-._=,:[]";
  return is_ascii_letter(c) || is_ascii_digit(c) || kPunctuation.find(c) != kPunctuation.npos;
}

std::string quoted(const std::string& argument) {
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), is_plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string shell_command(const std::vector<std::string>& arguments) {
  constexpr std::size_t kWidth = 98;
  std::string text;
  std::size_t column = 0;
  for (const std::string& argument : arguments) {
    const std::string shown = quoted(argument);
    if (column > 0 && column + 1 + shown.size() > kWidth) {
      text += " \\\n    ";
      column = 4;
    } else if (column > 0) {
      text += " ";
      ++column;
    }
    text += shown;
    column += shown.size();
  }
  return text;
}

std::string resume_command(const std::filesystem::path& run) {
  return "dpo train " + quoted("resume=" + run.string());
}

}  // namespace dpo
