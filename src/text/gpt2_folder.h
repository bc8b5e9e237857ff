#pragma once

#include <memory>

#include "text/engine.h"
#include "text/folder.h"

namespace dpo::text {

// What stands for the special tokens that no file names.
constexpr char kGpt2SpecialToken[] = "<|endoftext|>";

// vocab.json and merges.txt, as GPT-2 has them: byte-level, with the token above for every special one but
// the padding that no file names.
std::unique_ptr<const Engine> load_gpt2(TokenizerFolder& folder, const SpecialTokenFiles& specials);

}  // namespace dpo::text
