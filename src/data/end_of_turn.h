#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/chat.h"
#include "text/generation_config.h"

namespace dpo::data {

// The way in which a template ends the assistant's turn. A model trained with the template stops there.
struct EndOfTurn {
  std::optional<Token> token;  // the first special token after an answer
  std::string text;            // text before the token, such as <|im_end|> if that is not a token
};

// Renders a short example to find the end of turn. Returns an empty result if the template rejects the
// example or writes no special token after the answer.
EndOfTurn end_of_turn(const ChatTokenizer& chat, const text::Tokenizer& tokenizer);

// Returns the tokens that end an answer in conversations: the end of text and the end of turn.
text::AnswerEnds answer_ends(const ChatTokenizer& chat, const text::Tokenizer& tokenizer);

// Returns the ends of the tokenizer and chat template in a model's folder. Returns nullopt if the folder has
// no template, or if they cannot be used; `problem` then contains the reason.
std::optional<text::AnswerEnds> answer_ends(const std::filesystem::path& folder, std::string& problem);

}  // namespace dpo::data
