#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "text/merges.h"
#include "text/string_map.h"

namespace dpo::text {

using Vocabulary = std::vector<std::pair<std::string, Token>>;  // tokens as the file writes them

// The parts of a BPE model. The reader has checked them.
struct BpeParts {
  Vocabulary vocabulary;
  std::vector<Merge> merges;
  std::optional<Token> unknown;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

// Byte-pair encoding of one word.
//
// With `byte_level`, words are raw bytes, although the file writes each byte as a printable character
// (byte_level.h). A symbol is then a byte, so texts need not be rewritten.
class Bpe {
 public:
  Bpe(BpeParts parts, bool byte_level);

  void encode(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const;

  const Vocabulary& vocabulary() const { return parts_.vocabulary; }

 private:
  void find_fallback_tokens();
  void find_symbols();
  bool can_split_at_metaspace() const;
  void add_whole_words();
  void encode_part(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const;
  void start_symbols(std::string_view word, std::vector<Token>& symbols) const;
  bool fall_back_to_bytes(std::string_view character, std::vector<Token>& symbols) const;

  static constexpr Token kNoToken = StringMap::kAbsent;

  BpeParts parts_;
  bool byte_level_;
  MergeTable merges_;
  std::array<Token, 256> bytes_;     // the symbol of a byte (byte_level) or of an ASCII character
  std::array<Token, 256> fallback_;  // <0x00> to <0xFF>
  StringMap symbols_;                // every token's text, as it appears in words
  // Words that become one token. Most words of most texts are found here and need no merging. The constructor
  // fills the map, so threads share it without locks.
  StringMap whole_;
  bool splits_at_metaspace_ = false;
};

}  // namespace dpo::text
