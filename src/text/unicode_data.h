// Character classes as the `tokenizers` library sees them (scripts/unicode_ranges.py).
#pragma once

#include <span>
#include <string_view>

namespace dpo::text {

struct Range {
  char32_t first;
  char32_t last;
};

std::span<const Range> letter_ranges();         // \p{L} of its regular expressions
std::span<const Range> number_ranges();         // \p{N} of its regular expressions
std::span<const Range> other_numeric_ranges();  // numeric for its Digits, but not in \p{N}
std::span<const Range> other_word_ranges();     // what belongs to a word (single_word), letters apart
std::span<const Range> space_ranges();          // \s, and whitespace for its Strip and rstrip

// What a general category has gained since Unicode 14, which is what the oldest PCRE2 in use knows.
struct NewerCategory {
  std::string_view name;
  std::span<const Range> ranges;
};
std::span<const NewerCategory> newer_categories();

}  // namespace dpo::text
