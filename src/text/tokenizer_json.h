// Reads the parts of a tokenizer.json. The functions throw a UserError that names file, field and value for
// anything unsupported.
#pragma once

#include "text/folder.h"
#include "text/pipeline.h"

namespace dpo::text {

Normalizer read_normalizer(const std::optional<JsonField>& field);

struct PreTokenizerParts {
  PreTokenizer pre_tokenizer;
  bool byte_level = false;  // true if the last step was ByteLevel, which the model then does (bpe.h)
};
PreTokenizerParts read_pre_tokenizer(const std::optional<JsonField>& field);

Decoder read_decoder(const std::optional<JsonField>& field);

// Reads tokens and their ids. Rejects duplicate ids, and ids larger than in any vocabulary.
Vocabulary read_vocabulary(const JsonField& vocab);

struct MergeText {
  std::string left;
  std::string right;
};
// Converts merges to ids. `where` names the list in the message about a token that is not in the vocabulary.
std::vector<Merge> resolve_merges(const std::vector<MergeText>& texts, const Vocabulary& vocabulary,
                                  const std::string& where);

// Reads a whole tokenizer.json. With `specials`, the tokens of the folder's other files are added too.
PipelineParts read_tokenizer_json(const JsonField& root, const SpecialTokenFiles* specials);

// Reads vocab.json and merges.txt; see load_gpt2().
PipelineParts read_gpt2(TokenizerFolder& folder, const SpecialTokenFiles& specials);

}  // namespace dpo::text
