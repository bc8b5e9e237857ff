#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace dpo::text {

// What turns text into ids and back: our own pipeline, or the sentencepiece library. Immutable; texts are
// valid UTF-8.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void encode(std::string_view text, bool special, std::vector<Token>& out) const = 0;
  virtual std::string decode(std::span<const Token> ids, bool skip_special) const = 0;
  virtual std::optional<Token> id_of(std::string_view token) const = 0;
  virtual std::string token_of(Token id) const = 0;
  virtual std::int64_t size() const = 0;
};

}  // namespace dpo::text
