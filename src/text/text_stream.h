#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace dpo::text {

// Decodes tokens as they are generated, up to a stop string. All tokens are decoded together, because a
// character may span several tokens and a decoder may use neighbours.
class TextStream {
 public:
  using Decode = std::function<std::string(std::span<const Token>)>;

  TextStream(Decode decode, std::vector<std::string> stops);

  // Returns the new text that is certain: no partial character, and no possible start of a stop string.
  std::string add(Token token);

  // Returns the rest of the text, after the last token.
  std::string finish();

  // True if a stop string was found. add() must not be called after that.
  bool stopped() const { return stopped_; }

  // Returns all text that was returned so far.
  std::string text() const { return text_.substr(0, shown_); }

 private:
  std::string show_until(std::size_t end);

  Decode decode_;
  std::vector<std::string> stops_;
  std::vector<Token> tokens_;
  std::string text_;  // text of all tokens, up to a stop string
  std::size_t shown_ = 0;
  bool stopped_ = false;
};

}  // namespace dpo::text
