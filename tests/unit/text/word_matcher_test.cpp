#include "text/word_matcher.h"

#include <random>

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/regex.h"

namespace dpo::text {
namespace {

constexpr WordPattern kAll[] = {WordPattern::Gpt2, WordPattern::Cl100k, WordPattern::Qwen2};

std::vector<std::string> words(WordPattern pattern, std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(pattern, text, at);
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::vector<std::string> words_by_regex(const Regex& regex, std::string_view text) {
  std::vector<std::string> out;
  regex.for_each_match(
      text, [&](std::size_t start, std::size_t end) { out.emplace_back(text.substr(start, end - start)); });
  return out;
}

using Words = std::vector<std::string>;

TEST(WordMatcher, CutsAsGpt2) {
  EXPECT_EQ(words(WordPattern::Gpt2, "Hello world,  it's 12é!?"),
            (Words{"Hello", " world", ",", " ", " it", "'s", " 12", "é", "!?"}));
  EXPECT_EQ(words(WordPattern::Gpt2, "a \n b  "), (Words{"a", " \n", " b", "  "}));
  EXPECT_EQ(words(WordPattern::Gpt2, "I'LL"), (Words{"I", "'", "LL"}));  // lower case only
}

TEST(WordMatcher, CutsAsLlama3AndQwen2) {
  EXPECT_EQ(words(WordPattern::Cl100k, "I'LL\tgo 12345 $x\r\n\n y"),
            (Words{"I", "'LL", "\tgo", " ", "123", "45", " $", "x", "\r\n\n", " y"}));
  EXPECT_EQ(words(WordPattern::Qwen2, "a12"), (Words{"a", "1", "2"}));
  EXPECT_EQ(words(WordPattern::Cl100k, "!!\n\nx"), (Words{"!!\n\n", "x"}));
  EXPECT_EQ(words(WordPattern::Cl100k, "it'\u017F"), (Words{"it", "'\u017F"}));
}

TEST(WordMatcher, EqualsTheRegularExpressionOnEveryCodePoint) {
  for (const WordPattern pattern : kAll) {
    const Regex regex(std::string(pattern_text(pattern)), "test");
    std::string text;
    for (char32_t code = 0; code <= 0x10FFFF; ++code) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      for (const char* around : {"a", " ", "'", "1", "\n"}) {
        text += around;
        append_utf8(text, code);
      }
      append_utf8(text, code);
      if (code % 4096 != 4095) continue;
      ASSERT_EQ(words(pattern, text), words_by_regex(regex, text))
          << "up to code point " << static_cast<unsigned>(code);
      text.clear();
    }
  }
}

TEST(WordMatcher, EqualsTheRegularExpressionOnRandomTexts) {
  const std::vector<std::string> pieces = {" ",      "  ",     "\n", "\r", "\t",  "\u00A0", "\u3000",
                                           "\u180E", "\u2028", "'s", "'S", "'re", "'LL",    "'",
                                           "\u017F", "a",      "Z",  "é",  "漢",  "1",      "٣",
                                           "½",      "ⅷ",      "!",  "_",  "😀",   "\u0301", "\u200D"};
  std::mt19937 random(1);
  for (const WordPattern pattern : kAll) {
    const Regex regex(std::string(pattern_text(pattern)), "test");
    for (int i = 0; i < 20000; ++i) {
      std::string text;
      for (unsigned n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
      ASSERT_EQ(words(pattern, text), words_by_regex(regex, text)) << testing::PrintToString(text);
    }
  }
}

TEST(WordMatcher, KnowsItsPatterns) {
  for (const WordPattern pattern : kAll) EXPECT_EQ(known_pattern(pattern_text(pattern)), pattern);
  EXPECT_EQ(known_pattern(R"(\p{L}+)"), std::nullopt);
}

}  // namespace
}  // namespace dpo::text
