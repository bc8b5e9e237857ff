#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/folder.h"
#include "text/tokenizer.h"

namespace dpo::text {

// The implementation of a Tokenizer: a Pipeline or the sentencepiece library. It is immutable, and texts must
// be valid UTF-8.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual void encode(std::string_view text, bool special, std::vector<Token>& out) const = 0;
  virtual std::string decode(std::span<const Token> ids, bool skip_special) const = 0;
  virtual std::optional<Token> id_of(std::string_view token) const = 0;
  virtual std::string token_of(Token id) const = 0;
  virtual std::int64_t size() const = 0;
  virtual bool is_special(Token id) const = 0;

  // Divides a text into segments: added tokens, and the text between them. Each segment is encoded
  // separately.
  virtual void split(std::string_view text, std::vector<Segment>& segments) const = 0;
  // Computes what split() does for a text that begins like `other`, whose segments are known.
  virtual void split_alike(std::string_view other, const std::vector<Segment>& known, std::string_view text,
                           std::vector<Segment>& segments) const = 0;
  // Appends the number of tokens up to the end of each segment to `ends`.
  virtual void encode_segments(std::string_view text, std::span<const Segment> segments,
                               std::vector<Token>& out, std::vector<std::size_t>& ends) const = 0;
};

// Loads tokenizer.json.
std::unique_ptr<const Codec> load_tokenizer_json(TokenizerFolder& folder, const SpecialTokenFiles& specials);

// Loads vocab.json and merges.txt of a byte-level BPE tokenizer. Special tokens other than padding default to
// kGpt2SpecialToken if no file names them.
std::unique_ptr<const Codec> load_gpt2(TokenizerFolder& folder, const SpecialTokenFiles& specials);
constexpr char kGpt2SpecialToken[] = "<|endoftext|>";

// Loads tokenizer.model with the sentencepiece library. Special tokens in a text are split off first: control
// symbols of the model such as </s>, and tokens that the folder's other files add. Each part between them is
// encoded separately. With `special`, BOS and EOS are added according to add_bos_token and add_eos_token of
// tokenizer_config.json; by default only BOS is.
std::unique_ptr<const Codec> load_sentencepiece(TokenizerFolder& folder, const SpecialTokenFiles& specials);

}  // namespace dpo::text
