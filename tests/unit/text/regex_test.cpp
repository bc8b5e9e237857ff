#include "text/regex.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::text {
namespace {

std::vector<std::string> matches(const std::string& pattern, std::string_view text) {
  std::vector<std::string> out;
  Regex(pattern, "test").for_each_match(text, [&](std::size_t start, std::size_t end) {
    out.emplace_back(text.substr(start, end - start));
  });
  return out;
}
using Strings = std::vector<std::string>;

TEST(Regex, SpacesAreOnigurumas) {
  EXPECT_EQ(matches(R"(\s)", "\u180E \u3000\u200B"), (Strings{" ", "\u3000"}));
  EXPECT_EQ(matches(R"(\S)", "\u180E \u3000"), (Strings{"\u180E"}));
  EXPECT_EQ(matches(R"([\S]+)", "a\u180E b"), (Strings{"a\u180E", "b"}));
}

TEST(Regex, KnowsLettersThatAreNewerThanTheLibrary) {
  EXPECT_EQ(matches(R"(\p{L}+)", "a\u1C89b"), (Strings{"a\u1C89b"}));  // from Unicode 16
  EXPECT_EQ(matches(R"([^\p{L}]+)", "a\u1C89-"), (Strings{"-"}));
  EXPECT_EQ(matches(R"(\P{L}+)", "a\u1C89-"), (Strings{"-"}));
}

TEST(Regex, EmptyMatchesMoveOn) {
  EXPECT_EQ(matches("x*", "axxb"), (Strings{"", "xx", ""}));
  EXPECT_EQ(matches("", "é"), (Strings{"", ""}));
}

TEST(Regex, LinesEndAtLineFeeds) {
  EXPECT_EQ(matches("^.", "ab\ncd\re"), (Strings{"a", "c"}));
  EXPECT_EQ(matches(".$", "ab\ncd\re"), (Strings{"b", "e"}));
}

TEST(Regex, RefusesWhatTheEnginesTreatDifferently) {
  for (const char* pattern : {R"(\bword)", R"(\w+)", R"([[:alpha:]])", R"([a&&b])", R"((?m:.))", R"((?s).)",
                              R"(a{1,2}+)", R"(\p{Foo})", R"(\h)", R"([\P{L}])", R"((?<name>a))", R"(\1)",
                              R"([])", R"([a)", R"(\)", R"(\u12)", R"(\pL)"}) {
    try {
      Regex(pattern, "tokenizer.json: pre_tokenizer.pattern.Regex");
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("tokenizer.json: pre_tokenizer.pattern.Regex"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(Regex, RefusesAnInvalidPattern) {
  try {
    Regex("(a", "here");
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("here: invalid regular expression (a"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dpo::text
