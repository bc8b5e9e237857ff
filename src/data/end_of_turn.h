#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/chat.h"
#include "text/generation_config.h"

namespace dpo::data {

// How a template ends the assistant's turn: a model that was trained with it stops there.
struct EndOfTurn {
  std::optional<Token> token;  // the first special token after an answer
  std::string text;            // what else is written before it, such as <|im_end|> if that is not a token
};

// Of the template's own rendering of an answer; nothing if it refuses the example.
EndOfTurn end_of_turn(const ChatTokenizer& chat, const text::Tokenizer& tokenizer);

// Returns the tokens that end an answer in conversations: the end of text and the end of turn.
text::AnswerEnds answer_ends(const ChatTokenizer& chat, const text::Tokenizer& tokenizer);

// Returns those of the tokenizer and chat template in a model's folder; nullopt if it has none, or none that
// can be used. Then `problem` says why.
std::optional<text::AnswerEnds> answer_ends(const std::filesystem::path& folder, std::string& problem);

}  // namespace dpo::data
