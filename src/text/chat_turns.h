// What the assistant says in a rendered conversation, as text and as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dpo::text {

// The parts of `chat` (the rendered `variables`) that the assistant says in its messages from number `first`
// on: what generation blocks wrote; in a template without them each assistant turn, from the end of the
// conversation before it, rendered with its generation prompt, to the end of the conversation with it. A
// template may write an old turn differently from the last one (without its thinking); its end is then found
// by rendering it with another content. Throws TemplateError.
std::vector<TextRange> assistant_text(const ChatTemplate& chat_template, const jinja::Value& variables,
                                      const RenderedChat& chat, std::size_t first = 0);

// Where a message of the assistant begins in `chat`, after the generation prompt.
std::size_t start_of_turn(const ChatTemplate& chat_template, const jinja::Value& variables,
                          const RenderedChat& chat, std::size_t message);

// Whether the template, which renders `variables`, writes the content of a message, which is a text.
bool writes_content(const ChatTemplate& chat_template, const jinja::Value& variables, std::size_t message);

struct TrainedTokens {
  std::vector<Token> ids;
  std::vector<int> mask;  // 1 for what is trained on
};

// A part of a text in tokens: [begin, end). As in transformers, a token that crosses the beginning or the end
// of the part belongs to it. `ids` are the tokens of the text.
struct TokenSpan {
  std::size_t begin = 0, end = 0;
};
TokenSpan tokens_of(const Tokenizer& tokenizer, std::string_view text, const TextRange& part,
                    const std::vector<Token>& ids);

// The tokens of a text, without special tokens that the tokenizer would add.
TrainedTokens trained_tokens(const Tokenizer& tokenizer, std::string_view text,
                             const std::vector<TextRange>& parts);

}  // namespace dpo::text
