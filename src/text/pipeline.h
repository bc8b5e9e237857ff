#pragma once

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/codec.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace dpo::text {

// The result of a post-processor: ids, and nullopt in place of the ids of the text.
using Template = std::vector<std::optional<Token>>;

struct PipelineParts {
  std::vector<AddedToken> added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool byte_level = false;  // true if the model encodes raw bytes (bpe.h)
  BpeParts model;
  Template post_processor = {std::nullopt};
  Decoder decoder;
};

// The steps of a tokenizer.json: added tokens are split off, the rest is normalized and split into words, and
// every word is encoded.
class Pipeline : public Codec {
 public:
  // Throws a UserError that starts with `where` if added tokens cannot be distinguished.
  Pipeline(PipelineParts parts, const std::string& where);

  void encode(std::string_view text, bool special, std::vector<Token>& out) const override;
  std::string decode(std::span<const Token> ids, bool skip_special) const override;
  std::optional<Token> id_of(std::string_view token) const override;
  std::string token_of(Token id) const override;
  std::int64_t size() const override { return static_cast<std::int64_t>(texts_.size()); }
  bool is_special(Token id) const override;
  void split(std::string_view text, std::vector<Segment>& segments) const override;
  void split_alike(std::string_view other, const std::vector<Segment>& known, std::string_view text,
                   std::vector<Segment>& segments) const override;
  void encode_segments(std::string_view text, std::span<const Segment> segments, std::vector<Token>& out,
                       std::vector<std::size_t>& ends) const override;

 private:
  struct Scratch {
    std::vector<Segment> segments;
    std::vector<Segment> inner_segments;
    Normalized normalized;
    std::vector<Piece> pieces;
    std::vector<Piece> other_pieces;
    Arena arena;
    MergeScratch merge;
  };
  // Returns the thread's own memory. For many short texts, allocation would cost more than encoding.
  static Scratch& scratch();
  // The text and flags of an id, for decoding.
  struct TokenText {
    std::string text;
    bool used = false;
    bool special = false;
  };

  void encode_segment(std::string_view text, const Segment& segment, std::vector<Token>& out,
                      Scratch& scratch) const;
  void encode_text(std::string_view text, bool first, std::vector<Token>& out, Scratch& scratch) const;
  void encode_piece(const Piece& piece, std::vector<Token>& out, Scratch& scratch) const;
  void set_text(Token id, std::string text, bool special);

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe model_;
  Template template_;
  Decoder decoder_;
  AddedTokenFinder finder_;             // tokens that are searched in the text as given
  AddedTokenFinder normalized_finder_;  // tokens that are searched in the normalized text
  StringMap ids_;
  std::vector<TokenText> texts_;
};

}  // namespace dpo::text
