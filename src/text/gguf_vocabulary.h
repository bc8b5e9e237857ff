// Describes tokenizers as GGUF files do, for llama.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dpo::text {

// The kinds of tokens, with llama.cpp's numbers.
enum class GgufToken : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct GgufVocabulary {
  std::string model;  // llama.cpp's tokenizer: "gpt2" (BPE of bytes) or "llama" (BPE of SentencePiece)
  std::string pre;    // llama.cpp's name of the rules that split a text into words
  std::vector<std::string> tokens;  // by id
  std::vector<std::int32_t> kinds;  // GgufToken of each
  std::vector<float> scores;  // of each; only for "llama". The pair with the highest score is merged first
  std::vector<std::string> merges;  // only for "gpt2"
  bool add_space_prefix = false;    // a space is put before a text; only for "llama"
  bool strips_spaces = false;       // special tokens include the spaces next to them
  std::vector<std::string> notes;   // for the user: known differences in llama.cpp
};

// Describes the tokenizer in a folder, with `size` tokens as the model has rows in its embedding. Throws a
// UserError that names what llama.cpp does not support.
GgufVocabulary gguf_vocabulary(const std::filesystem::path& folder, std::int64_t size);

}  // namespace dpo::text
