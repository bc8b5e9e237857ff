#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/chat.h"
#include "data/source.h"

namespace dpo::data {

// A prompt with its responses in tokens, and what is wrong with rows that it has lost.
struct TokenizedPrompt {
  struct Refused {
    RowOrigin row;
    std::string problem;
  };
  std::vector<TokenizedText> texts;  // the prompt, then its responses; none if no row is left
  std::vector<Refused> refused;
  std::optional<PromptText> rest;  // the prompt without refused rows

  const PromptText& text_of(const PromptText& whole) const { return rest ? *rest : whole; }
};

// The renderer of a source of conversations; nullopt for plain text.
std::optional<ChatTokenizer> chat_of(const Source& source, const config::RunConfig& config,
                                     const text::Tokenizer& tokenizer);

// `chat`: of the prompt's source. A conversation that the template refuses loses its row.
TokenizedPrompt tokenize_prompt(const PromptText& prompt, const text::Tokenizer& tokenizer,
                                const std::optional<ChatTokenizer>& chat, Token eos);

}  // namespace dpo::data
