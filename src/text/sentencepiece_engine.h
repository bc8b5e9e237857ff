#pragma once

#include <memory>

#include "text/engine.h"
#include "text/folder.h"

namespace dpo::text {

// tokenizer.model through the sentencepiece library. Special tokens that stand in a text (control symbols of
// the model such as </s>, and tokens that the folder's other files add) are cut out first; each stretch
// between them is encoded as a text of its own. With `special`, BOS and EOS are added as add_bos_token and
// add_eos_token of tokenizer_config.json say; without them BOS alone.
std::unique_ptr<const Engine> load_sentencepiece(TokenizerFolder& folder, const SpecialTokenFiles& specials);

}  // namespace dpo::text
