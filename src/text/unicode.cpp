#include "text/unicode.h"

#include <vector>

namespace dpo::text {
namespace {

std::vector<std::uint8_t> make_classes() {
  std::vector<std::uint8_t> classes(0x110000, 0);
  const auto mark = [&](std::span<const Range> ranges, unsigned bits) {
    for (const Range& range : ranges)
      for (char32_t code = range.first; code <= range.last; ++code)
        classes[code] = static_cast<std::uint8_t>(classes[code] | bits);
  };
  mark(letter_ranges(), kLetter | kWord);
  mark(number_ranges(), kNumber | kNumeric);
  mark(other_numeric_ranges(), kNumeric);
  mark(other_word_ranges(), kWord);
  mark(space_ranges(), kSpace);
  return classes;
}

}  // namespace

const std::uint8_t* char_classes() {
  static const std::vector<std::uint8_t> classes = make_classes();
  return classes.data();
}

}  // namespace dpo::text
