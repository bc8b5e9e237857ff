#pragma once

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/codec.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace dpo::text {

// What a post-processor returns: ids; nullopt stands for the ids of the text.
using Template = std::vector<std::optional<Token>>;

struct PipelineParts {
  std::vector<AddedToken> added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool byte_level = false;  // the model encodes raw bytes (bpe.h)
  BpeParts model;
  Template post_processor = {std::nullopt};
  Decoder decoder;
};

// The steps of a tokenizer.json: added tokens are split off; the rest is normalized and split into words,
// and every word is encoded.
class Pipeline : public Codec {
 public:
  // Added tokens that cannot be distinguished are a UserError that starts with `where`.
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
  // Every thread has one: for many short texts, memory would cost more than encoding them.
  static Scratch& scratch();
  // What decoding needs to know about an id.
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
  AddedTokenFinder finder_;             // tokens that are looked for in the text as given
  AddedTokenFinder normalized_finder_;  // tokens that are looked for in the normalized text
  StringMap ids_;
  std::vector<TokenText> texts_;
};

}  // namespace dpo::text
