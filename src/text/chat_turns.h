// What the assistant says in a rendered conversation, as text and as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dpo::text {

// The parts of `chat` (the rendered `variables`) that the assistant says: what generation blocks wrote; in a
// template without them each assistant turn, from the end of the conversation before it, rendered with its
// generation prompt, to the end of the conversation with it. Where such a text is not a prefix of the whole,
// it ends where they differ. Throws TemplateError.
std::vector<TextRange> assistant_text(const ChatTemplate& chat_template, const jinja::Value& variables,
                                      const RenderedChat& chat);

struct TrainedTokens {
  std::vector<Token> ids;
  std::vector<int> mask;  // 1 for what is trained on
};

// The tokens of a text, without special tokens that the tokenizer would add. A part of the text begins after
// the tokens that the text before it has in common with the whole.
TrainedTokens trained_tokens(const Tokenizer& tokenizer, std::string_view text,
                             const std::vector<TextRange>& parts);

}  // namespace dpo::text
