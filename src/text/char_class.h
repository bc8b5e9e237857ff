#pragma once

#include <cstdint>

namespace dpo::text {

// Bits of a code point's class.
constexpr std::uint8_t kLetter = 1;
constexpr std::uint8_t kNumber = 2;
constexpr std::uint8_t kSpace = 4;
constexpr std::uint8_t kNumeric =
    8;  // what the Digits pre-tokenizer takes for a digit: a little more than kNumber
constexpr std::uint8_t kWord = 16;  // what the single_word flag of added tokens takes for part of a word

// The class of every code point, one byte each: made once, then only read.
const std::uint8_t* char_classes();

}  // namespace dpo::text
