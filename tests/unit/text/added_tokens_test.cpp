#include "text/added_tokens.h"

#include <random>

#include <gtest/gtest.h>

namespace dpo::text {
namespace {

AddedToken token(Token id, std::string content, bool lstrip = false, bool rstrip = false,
                 bool single_word = false) {
  AddedToken made;
  made.id = id;
  made.content = std::move(content);
  made.lstrip = lstrip;
  made.rstrip = rstrip;
  made.single_word = single_word;
  return made;
}

// Returns tokens as <id> and text unchanged, separated by |.
std::string found(const AddedTokenFinder& finder, std::string_view text) {
  std::vector<Segment> segments;
  finder.find(text, segments);
  std::string out;
  for (const Segment& segment : segments) {
    if (!out.empty()) out += "|";
    out += segment.token ? "<" + std::to_string(*segment.token) + ">"
                         : std::string(text.substr(segment.start, segment.end - segment.start));
  }
  return out;
}

AddedTokenFinder finder_of(std::initializer_list<AddedToken> tokens) {
  AddedTokenFinder finder;
  for (const AddedToken& each : tokens) finder.add(each.content, each);
  return finder;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const AddedTokenFinder finder = finder_of({token(1, "ab"), token(2, "abcd"), token(3, "bc")});
  EXPECT_EQ(found(finder, "xabcdx"), "x|<2>|x");
  EXPECT_EQ(found(finder, "abcx"), "<1>|cx");
  EXPECT_EQ(found(finder, "abab"), "<1>|<1>");
  EXPECT_EQ(found(finder, ""), "");
  EXPECT_EQ(found(finder, "a"), "a");
}

// If all tokens have the same first character, another search is used.
TEST(AddedTokens, BeginAlikeOrNot) {
  EXPECT_EQ(found(finder_of({token(1, "<a>"), token(2, "<b")}), "<<a>x<<b<a"), "<|<1>|x<|<2>|<a");
  EXPECT_EQ(found(finder_of({token(1, "<a>"), token(2, "x")}), "<x<a>x<"), "<|<2>|<1>|<2>|<");
  EXPECT_EQ(found(finder_of({token(1, "<"), token(2, "<a")}), "b<c<a<"), "b|<1>|c|<2>|<1>");
}

TEST(AddedTokens, FlagsIncludeSpaces) {
  EXPECT_EQ(found(finder_of({token(1, "[X]", true)}), "a \u3000[X] b"), "a|<1>| b");
  EXPECT_EQ(found(finder_of({token(1, "[X]", false, true)}), "a [X] \n b"), "a |<1>|b");
  EXPECT_EQ(found(finder_of({token(1, "[X]", true, true)}), " [X]  [X] "), "<1>|<1>");
}

TEST(AddedTokens, SingleWordsStandAlone) {
  const AddedTokenFinder finder = finder_of({token(1, "cat", false, false, true)});
  EXPECT_EQ(found(finder, "cat cats, cat-é"), "<1>| cats, |<1>|-é");
  EXPECT_EQ(found(finder, "écat cat_ cat\u0301"), "écat cat_ cat\u0301");
}

// Results that are reused for texts with a common beginning must not change anything.
TEST(AddedTokens, AreFoundAlikeInTextsThatBeginAlike) {
  const AddedTokenFinder finder =
      finder_of({token(1, "<a>"), token(2, "<a>bc"), token(3, "[X]", true), token(4, "[Y]", false, true),
                 token(5, "cat", false, false, true), token(6, "  "), token(7, "bc")});
  const std::vector<std::string> pieces = {"<a>", "<a", ">",  "b",   "bc", "[X]",
                                           "[Y]", " ",  "  ", "cat", "é",  "s"};
  std::mt19937 random(1);
  const auto some = [&](std::size_t most) {
    std::string text;
    for (std::size_t i = random() % (most + 1); i > 0; --i) text += pieces[random() % pieces.size()];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    const std::string start = some(8), other = start + some(4), text = start + some(4);
    std::vector<Segment> known, alike, alone;
    finder.find(other, known);
    finder.find(text, alone);
    finder.find_alike(other, known, text, alike);
    ASSERT_EQ(alike.size(), alone.size()) << other << " / " << text;
    for (std::size_t i = 0; i < alike.size(); ++i)
      EXPECT_TRUE(alike[i].start == alone[i].start && alike[i].end == alone[i].end &&
                  alike[i].token == alone[i].token)
          << other << " / " << text;
  }
}

TEST(AddedTokens, OneOfTwoEqualPatternsIsRefused) {
  AddedTokenFinder finder;
  EXPECT_TRUE(finder.add("x", token(1, "x")));
  EXPECT_FALSE(finder.add("x", token(2, "X")));
}

}  // namespace
}  // namespace dpo::text
