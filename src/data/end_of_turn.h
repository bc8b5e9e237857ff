#pragma once

#include <optional>
#include <string>

#include "data/chat.h"

namespace dpo::data {

// How a template ends the assistant's turn: a model that was trained with it stops there.
struct EndOfTurn {
  std::optional<Token> token;  // the first special token after an answer
  std::string text;            // what else is written before it, such as <|im_end|> if that is not a token
};

// Of the template's own rendering of an answer; nothing if it refuses the example.
EndOfTurn end_of_turn(const ChatTokenizer& chat, const text::Tokenizer& tokenizer);

}  // namespace dpo::data
