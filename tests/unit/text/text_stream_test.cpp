#include "text/text_stream.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace dpo::text {
namespace {

// Each token stands for some bytes. A partial character becomes U+FFFD, as in byte-level tokenizers.
TextStream stream_of(std::vector<std::string> pieces, std::vector<std::string> stops = {}) {
  return {[pieces = std::move(pieces)](std::span<const Token> tokens) {
            std::string bytes;
            for (const Token token : tokens) bytes += pieces[static_cast<std::size_t>(token)];
            return replace_invalid_utf8(bytes);
          },
          std::move(stops)};
}

// Returns the results of add() for the tokens 0, 1, ..., and then of finish().
std::vector<std::string> pieces_of(TextStream stream, Token count) {
  std::vector<std::string> shown;
  for (Token token = 0; token < count && !stream.stopped(); ++token) shown.push_back(stream.add(token));
  shown.push_back(stream.finish());
  std::string all;
  for (const std::string& piece : shown) all += piece;
  EXPECT_EQ(all, stream.text());
  return shown;
}

using Pieces = std::vector<std::string>;

TEST(TextStream, ShowsTextAsItComes) {
  EXPECT_EQ(pieces_of(stream_of({"Hello", ",", " world"}), 3), (Pieces{"Hello", ",", " world", ""}));
}

TEST(TextStream, NeverShowsHalfACharacter) {
  EXPECT_EQ(pieces_of(stream_of({"a\xF0\x9F", "\x98", "\x80z"}), 3), (Pieces{"a", "", "😀z", ""}));
}

TEST(TextStream, ShowsAnUnfinishedCharacterAtTheEnd) {
  EXPECT_EQ(pieces_of(stream_of({"a\xF0\x9F"}), 1), (Pieces{"a", "\xEF\xBF\xBD"}));
}

TEST(TextStream, StopsAcrossTokens) {
  EXPECT_EQ(pieces_of(stream_of({"one\n", "\nHu", "man: two", "never"}, {"\n\nHuman:"}), 4),
            (Pieces{"one", "", "", ""}));
}

TEST(TextStream, ShowsWhatOnlyLookedLikeAStop) {
  EXPECT_EQ(pieces_of(stream_of({"one\n", "\nHu", "t"}, {"\n\nHuman:"}), 3),
            (Pieces{"one", "", "\n\nHut", ""}));
}

TEST(TextStream, TheFirstOfSeveralStopsCounts) {
  EXPECT_EQ(pieces_of(stream_of({"a b c d"}, {"c", "b", "zz"}), 1), (Pieces{"a ", ""}));
}

TEST(TextStream, AStopThatRepeatsItselfIsFound) {
  EXPECT_EQ(pieces_of(stream_of({"xa", "a", "a", "b"}, {"aab"}), 4), (Pieces{"x", "", "a", "", ""}));
}

TEST(TextStream, AHeldBeginningIsShownAtTheEnd) {
  EXPECT_EQ(pieces_of(stream_of({"one", " ST"}, {" STOP"}), 2), (Pieces{"one", "", " ST"}));
}

}  // namespace
}  // namespace dpo::text
