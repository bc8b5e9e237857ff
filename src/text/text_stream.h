#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace dpo::text {

// The text of tokens that come one by one, up to a stop string. Tokens are decoded together, since a
// character may be spread over several and a decoder may look at neighbours.
class TextStream {
 public:
  using Decode = std::function<std::string(std::span<const Token>)>;

  TextStream(Decode decode, std::vector<std::string> stops);

  // What is certain to follow the text returned so far: no half of a character, and nothing that may turn out
  // to be the beginning of a stop string.
  std::string add(Token token);

  // The rest of the text, when no token follows.
  std::string finish();

  // Whether the text ended before a stop string; add() must not be called any more.
  bool stopped() const { return stopped_; }

  // All that was returned.
  std::string text() const { return text_.substr(0, shown_); }

 private:
  std::string show_until(std::size_t end);

  Decode decode_;
  std::vector<std::string> stops_;
  std::vector<Token> tokens_;
  std::string text_;  // of all tokens, or what is left of it before a stop string
  std::size_t shown_ = 0;
  bool stopped_ = false;
};

}  // namespace dpo::text
