#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "text/merge_word.h"
#include "text/string_map.h"

namespace dpo::text {

// What a model of type BPE is made of. Everything was checked by the reader.
struct BpeParts {
  std::vector<std::pair<std::string, Token>> vocabulary;  // the text as it stands in the file
  std::vector<Merge> merges;
  std::optional<Token> unknown;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

// Byte-pair encoding of one word.
//
// With `bytes_of_text`, words come as plain bytes, while the file writes each byte as a printable character
// (byte_level.h): then a symbol is a byte, and no text is ever rewritten.
class Bpe {
 public:
  Bpe(BpeParts parts, bool bytes_of_text);

  void encode(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const;

  const std::vector<std::pair<std::string, Token>>& vocabulary() const { return parts_.vocabulary; }

 private:
  void find_fallback_tokens();
  void find_symbols();
  bool may_be_cut_at_metaspace() const;
  void add_whole_words();
  void encode_uncut(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const;
  void start_symbols(std::string_view word, std::vector<Token>& symbols) const;
  bool fall_back_to_bytes(std::string_view character, std::vector<Token>& symbols) const;

  static constexpr Token kNoToken = StringMap::kAbsent;

  BpeParts parts_;
  bool bytes_of_text_;
  MergeTable merges_;
  std::array<Token, 256> bytes_;     // the symbol of a byte (bytes_of_text) or of an ASCII character
  std::array<Token, 256> fallback_;  // <0x00> to <0xFF>
  StringMap symbols_;                // every token's text, as it appears in words
  // Words that become one token: most words of most texts are found here and need no merging. It is filled
  // once, so threads share it without locks.
  StringMap whole_;
  bool cuts_at_metaspace_ = false;
};

}  // namespace dpo::text
