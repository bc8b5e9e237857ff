// Readers of the parts of a tokenizer.json. What they do not know is a UserError that names file, field and
// value.
#pragma once

#include "text/json_field.h"
#include "text/pipeline.h"

namespace dpo::text {

// A string of exactly one character.
std::string read_character(const JsonField& field);
TextPattern read_pattern(const JsonField& field);
PrependScheme read_prepend_scheme(const JsonField& metaspace);

Normalizer read_normalizer(const std::optional<JsonField>& field);

struct PreTokenizerParts {
  PreTokenizer pre_tokenizer;
  bool bytes_of_text = false;  // the last step maps bytes; it is left to the model
};
PreTokenizerParts read_pre_tokenizer(const std::optional<JsonField>& field);

Decoder read_decoder(const std::optional<JsonField>& field);

using Vocabulary = std::vector<std::pair<std::string, Token>>;

// Tokens and their ids; an id that two tokens share, or that is larger than any vocabulary, is refused.
Vocabulary read_vocabulary(const JsonField& vocab);
BpeParts read_bpe(const JsonField& model);

struct MergeText {
  std::string left;
  std::string right;
};
// `where` names the list, for the message about a merge of tokens that the vocabulary lacks.
std::vector<Merge> resolve_merges(const std::vector<MergeText>& texts, const Vocabulary& vocabulary,
                                  const std::string& where);

AddedToken read_added_token(const JsonField& field);

// Gives added tokens their ids as the library does: that of the vocabulary, else the next one behind it. A
// file that names another id would mean other ids than those the model was trained with, so it is refused.
class AddedTokens {
 public:
  explicit AddedTokens(const Vocabulary& vocabulary);

  // An id that a file gives to the token.
  struct Given {
    std::int64_t id;
    JsonField field;
  };
  // A token that is known already keeps what was said first.
  void add(AddedToken token, const std::optional<Given>& given);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  StringMap ids_;
  StringMap added_;
  Token next_;
  std::vector<AddedToken> tokens_;
};

Template read_post_processor(const std::optional<JsonField>& field, std::int64_t size);

class SpecialTokenFiles;

// With `specials`, tokens that the folder's other files add are added too.
PipelineParts read_tokenizer_json(const JsonField& root, const SpecialTokenFiles* specials);

}  // namespace dpo::text
