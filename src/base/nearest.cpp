#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include <fmt/format.h>

namespace dpo {
namespace {

// Returns the number of edits (insert, delete, replace, swap of neighbors) between two names, ignoring case.
// Replacing a letter costs `replacement` edits.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t replacement) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] =
          std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : replacement)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

// Returns the digits of a name, which are a version or size: qwen3_5 is not a misspelling of qwen3.
std::string digits_of(std::string_view name) {
  std::string digits;
  for (const char c : name)
    if (std::isdigit(static_cast<unsigned char>(c))) digits += c;
  return digits;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestName = 100;  // a longer text is no misspelled name
  if (name.empty() || name.size() > kLongestName) return std::nullopt;
  constexpr std::size_t kShortName = 4;  // one replaced letter makes another name: grpo, orpo
  constexpr std::size_t kLettersPerEdit = 4;
  const std::size_t replacement = name.size() <= kShortName ? 2 : 1;
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / kLettersPerEdit) + 1;
  for (const std::string& candidate : candidates) {
    if (digits_of(candidate) != digits_of(name)) continue;
    const std::size_t distance = edit_distance(name, candidate, replacement);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const auto near = nearest_name(name, candidates);
  return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace dpo
