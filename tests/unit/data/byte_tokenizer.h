// A tokenizer whose ids are the bytes of the text, with 256 for the end of the text.
#pragma once

#include <nlohmann/json.hpp>

#include "data/example.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "unit/data/files.h"

namespace dpo::data {

constexpr Token kEos = 256;

inline nlohmann::json byte_vocabulary() {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < kEos; ++byte)
    vocabulary[text::to_byte_level(std::string(1, static_cast<char>(byte)))] = byte;
  vocabulary["<|endoftext|>"] = kEos;
  return vocabulary;
}

class WithTokenizer : public WithFolder {
 protected:
  WithTokenizer() {
    write("tokenizer/vocab.json", byte_vocabulary().dump());
    write("tokenizer/merges.txt", "#version: 0.2\n");
    tokenizer_.emplace(text::Tokenizer::load(folder_ / "tokenizer"));
  }

  std::optional<text::Tokenizer> tokenizer_;
};

}  // namespace dpo::data
