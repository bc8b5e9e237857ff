// Character classes as in the `tokenizers` library (scripts/unicode_ranges.py).
#pragma once

#include <cstdint>
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
std::span<const Range> other_word_ranges();     // part of a word (single_word), but not in \p{L}
std::span<const Range> space_ranges();          // \s, and whitespace for its Strip and rstrip

// Characters that Unicode added to a general category after version 14, the version of the oldest supported
// PCRE2.
struct NewerCategory {
  std::string_view name;
  std::span<const Range> ranges;
};
std::span<const NewerCategory> newer_categories();

// Bits of a code point's class.
constexpr std::uint8_t kLetter = 1;
constexpr std::uint8_t kNumber = 2;
constexpr std::uint8_t kSpace = 4;
constexpr std::uint8_t kNumeric = 8;  // a digit to the Digits pre-tokenizer, slightly more than kNumber
constexpr std::uint8_t kWord = 16;    // part of a word to the single_word flag of added tokens

// Returns the class of every code point, one byte each. The table is computed once.
const std::uint8_t* char_classes();

}  // namespace dpo::text
