#include "text/bpe.h"

#include <random>

#include <gtest/gtest.h>

#include "tiny_tokenizers.h"

namespace dpo::text {
namespace {

Bpe small(bool ignore_merges = false) {
  // a b c d ab cd abcd bc; "bc" ranks last but one.
  BpeParts parts;
  parts.vocabulary = {{"a", 0},  {"b", 1},    {"c", 2},  {"d", 3}, {"ab", 4},
                      {"cd", 5}, {"abcd", 6}, {"bc", 7}, {"dd", 8}};
  parts.merges = {{0, 1, 4}, {2, 3, 5}, {1, 2, 7}, {4, 5, 6}};
  parts.ignore_merges = ignore_merges;
  return Bpe(std::move(parts), false);
}

std::vector<Token> encode(const Bpe& bpe, std::string_view word) {
  std::vector<Token> ids;
  MergeScratch scratch;
  bpe.encode(word, ids, scratch);
  return ids;
}
using Ids = std::vector<Token>;

TEST(Bpe, MergesTheLowestRankFirst) {
  const Bpe bpe = small();
  EXPECT_EQ(encode(bpe, "abcd"), (Ids{6}));
  EXPECT_EQ(encode(bpe, "bcd"), (Ids{1, 5}));  // cd before bc
  EXPECT_EQ(encode(bpe, "abc"), (Ids{4, 2}));
  EXPECT_EQ(encode(bpe, "bcbc"), (Ids{7, 7}));
  EXPECT_EQ(encode(bpe, "axb"), (Ids{4}));  // an unknown character is dropped, and its neighbours merge
}

TEST(Bpe, IgnoreMergesTakesWholeWordsFromTheVocabulary) {
  EXPECT_EQ(encode(small(), "dd"), (Ids{3, 3}));  // in the vocabulary, but no merge produces it
  EXPECT_EQ(encode(small(true), "dd"), (Ids{8}));
}

// Merges as specified, for comparison with the scan and the heap.
std::vector<Token> merge_plainly(const MergeTable& merges, std::vector<Token> symbols) {
  for (;;) {
    std::uint32_t lowest = kNoRank;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const std::uint32_t rank = merges.rank(symbols[i], symbols[i + 1]);
      if (rank < lowest) lowest = rank, at = i;
    }
    if (lowest == kNoRank) return symbols;
    symbols[at] = merges.result(lowest);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(MergeWord, ShortAndLongWordsEqualThePlainRule) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Merge> list;
    for (Token next = 4; next < 40; ++next)
      list.push_back({static_cast<Token>(random() % static_cast<unsigned>(next)),
                      static_cast<Token>(random() % static_cast<unsigned>(next)), next});
    const MergeTable merges(list);
    MergeScratch scratch;
    for (std::size_t i = 1 + random() % 200; i > 0; --i)
      scratch.symbols.push_back(static_cast<Token>(random() % 4));
    const std::vector<Token> expected = merge_plainly(merges, scratch.symbols);
    merge_word(merges, scratch);
    ASSERT_EQ(scratch.symbols, expected);
  }
}

TEST(MergeWord, WorkGrowsLinearlyWithTheWord) {
  std::vector<Merge> list = {{0, 0, 1}, {1, 1, 2}, {2, 2, 3}, {3, 3, 4}};
  const MergeTable merges(list);
  const auto steps = [&](std::size_t length) {
    MergeScratch scratch;
    scratch.symbols.assign(length, 0);
    merge_word(merges, scratch);
    EXPECT_EQ(scratch.symbols.size(), length / 16);
    return scratch.steps;
  };
  EXPECT_LT(steps(1 << 20), 4u << 20);
  EXPECT_LT(steps(1 << 20), steps(1 << 14) * 80);  // 64 times the length
}

TEST(Bpe, ByteFallbackUnknownAndFusing) {
  const auto llama = tiny::load(tiny::llama());
  EXPECT_EQ(tiny::encode(*llama, "é"), (Ids{*llama->id_of("\u2581"), *llama->id_of("é")}));
  EXPECT_EQ(tiny::encode(*llama, "aß"),
            (Ids{*llama->id_of("\u2581a"), *llama->id_of("<0xC3>"), *llama->id_of("<0x9F>")}));
  tiny::Json json = tiny::llama();
  json["model"]["byte_fallback"] = false;
  const auto fused = tiny::load(json);
  EXPECT_EQ(tiny::encode(*fused, "aßß"), (Ids{*fused->id_of("\u2581a"), 0}));
  json["model"]["fuse_unk"] = false;
  const auto single = tiny::load(json);
  EXPECT_EQ(tiny::encode(*single, "aßß"), (Ids{*single->id_of("\u2581a"), 0, 0}));
}

// Splitting at metaspaces is allowed only if no merge joins one to the text on its left.
TEST(Bpe, SplittingAtMetaspacesGivesTheSameIds) {
  tiny::Json json = tiny::llama();
  const auto cut = tiny::load(json);
  const Token word = *cut->id_of("\u2581ab");
  EXPECT_EQ(tiny::encode(*cut, "ab ab  ab"), (Ids{word, word, *cut->id_of("\u2581"), word}));
  json["model"]["vocab"]["b\u2581a"] = json["model"]["vocab"].size();
  json["model"]["merges"].insert(json["model"]["merges"].begin(), tiny::Json{"b", "\u2581a"});
  const auto crossing = tiny::load(json);
  const std::vector<Token> ids = tiny::encode(*crossing, "ab ab");
  EXPECT_NE(std::find(ids.begin(), ids.end(), *crossing->id_of("b\u2581a")), ids.end());
}

}  // namespace
}  // namespace dpo::text
