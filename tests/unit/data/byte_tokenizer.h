// A tokenizer whose tokens are the bytes of the text (ids are the bytes themselves) and the end of the text
// (256).
#pragma once

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "data/example.h"
#include "text/tokenizer.h"
#include "unit/data/files.h"

namespace dpo::data {

constexpr Token kEos = 256;

// GPT-2's name of a byte: itself if it is a visible character, else one from U+0100 on.
inline nlohmann::json byte_vocabulary() {
  nlohmann::json vocabulary;
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (33 <= byte && byte <= 126) || (161 <= byte && byte <= 172) || byte >= 174;
    std::string name;
    append_utf8(name, visible ? static_cast<char32_t>(byte) : next++);
    vocabulary[name] = byte;
  }
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
