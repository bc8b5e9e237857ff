#include "base/utf8.h"

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(Utf8, EveryCodePointSurvives) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text = "x";
    append_utf8(text, code);
    const CodePoint read = code_point_at(text, 1);
    ASSERT_EQ(read.code, code);
    ASSERT_EQ(read.length + 1, text.size());
    ASSERT_EQ(first_invalid_utf8(text), text.size());
    ASSERT_EQ(previous_start(text, text.size()), 1u);
  }
}

struct Case {
  std::string bytes;
  std::string read;
};

// The right-hand sides are the results of Python's errors="replace".
TEST(Utf8, ReplacesEachPartThatCannotStartACharacter) {
  const std::string bad = "\uFFFD";
  const Case cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"\xFF", bad},
      {"a\x80z", "a" + bad + "z"},
      {"\xC3", bad},
      {"\xC3(", bad + "("},
      {"\xE2\x82", bad},  // the start of a character: one
      {"\xE2\x82"
       "a",
       bad + "a"},
      {"\xF0\x9F\x98", bad},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", bad + "😀"},
      {"\xED\xA0\x80", bad + bad + bad},  // a surrogate: none of its bytes can start or continue a character
      {"\xC0\xAF", bad + bad},            // overlong
      {"\xE0\x80\xAF", bad + bad + bad},
      {"\xF4\x90\x80\x80", bad + bad + bad + bad},  // beyond U+10FFFF
      {"12345678\xFF", "12345678" + bad},           // after the fast path
  };
  for (const Case& c : cases) {
    EXPECT_EQ(replace_invalid_utf8(c.bytes), c.read) << testing::PrintToString(c.bytes);
    EXPECT_EQ(is_valid_utf8(c.bytes), c.bytes == c.read) << testing::PrintToString(c.bytes);
  }
}

TEST(Utf8, CharactersAreCountedAndFound) {
  const std::string text = "a\u00e9\u20ac\U0001f600z";
  EXPECT_EQ(count_characters(text), 5u);
  EXPECT_EQ(byte_of_character(text, 0), 0u);
  EXPECT_EQ(byte_of_character(text, 2), 3u);
  EXPECT_EQ(byte_of_character(text, 4), 10u);
  EXPECT_EQ(byte_of_character(text, 5), 11u);
  EXPECT_EQ(byte_of_character(text, 9), 11u);
}

}  // namespace
}  // namespace dpo
