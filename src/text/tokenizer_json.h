// Readers of the parts of a tokenizer.json. Anything unsupported is a UserError that names file, field and
// value.
#pragma once

#include "text/folder.h"
#include "text/pipeline.h"

namespace dpo::text {

Normalizer read_normalizer(const std::optional<JsonField>& field);

struct PreTokenizerParts {
  PreTokenizer pre_tokenizer;
  bool byte_level = false;  // the last step was ByteLevel; it is left to the model (bpe.h)
};
PreTokenizerParts read_pre_tokenizer(const std::optional<JsonField>& field);

Decoder read_decoder(const std::optional<JsonField>& field);

// Tokens and their ids. Duplicate ids, and ids larger than any vocabulary has, are refused.
Vocabulary read_vocabulary(const JsonField& vocab);

struct MergeText {
  std::string left;
  std::string right;
};
// `where` names the list, for the message about a token that is not in the vocabulary.
std::vector<Merge> resolve_merges(const std::vector<MergeText>& texts, const Vocabulary& vocabulary,
                                  const std::string& where);

// With `specials`, the tokens of the folder's other files are added too.
PipelineParts read_tokenizer_json(const JsonField& root, const SpecialTokenFiles* specials);

}  // namespace dpo::text
