#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/chat.h"
#include "data/source.h"

namespace dpo::data {

// A tokenized prompt with its responses, and the rows that were rejected.
struct TokenizedPrompt {
  struct Refused {
    RowOrigin row;
    std::string problem;
  };
  std::vector<TokenizedText> texts;  // the prompt, then its responses; none if no row is left
  std::vector<Refused> refused;
  std::optional<PromptText> rest;  // the prompt without the rejected rows, if there are any

  const PromptText& text_of(const PromptText& whole) const { return rest ? *rest : whole; }
};

// Returns the tokenizer of a source of conversations, or nullopt for plain text.
std::optional<ChatTokenizer> chat_of(const Source& source, const config::RunConfig& config,
                                     const text::Tokenizer& tokenizer);

// Tokenizes a prompt with the tokenizer of its source (`chat`). If the template rejects a conversation, its
// row is removed.
TokenizedPrompt tokenize_prompt(const PromptText& prompt, const text::Tokenizer& tokenizer,
                                const std::optional<ChatTokenizer>& chat, Token eos);

}  // namespace dpo::data
