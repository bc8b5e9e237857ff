// Finds the assistant's answers in a rendered conversation, as text and as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dpo::text {

// Returns the parts of `chat` (the rendered `variables`) that the assistant wrote in its messages from index
// `first` on. With generation blocks, these are the text of the blocks. Otherwise each turn extends from the
// end of the conversation before it, rendered with its generation prompt, to the end of the conversation with
// it. A template may write an old turn differently from the last one, for example without its reasoning. Its
// end is then found by rendering it with other content. Throws TemplateError.
std::vector<TextRange> assistant_text(const ChatTemplate& chat_template, const jinja::Value& variables,
                                      const RenderedChat& chat, std::size_t first = 0);

// Returns where a message of the assistant begins in `chat`, after the generation prompt.
std::size_t start_of_turn(const ChatTemplate& chat_template, const jinja::Value& variables,
                          const RenderedChat& chat, std::size_t message);

// Returns whether the template writes the content of a message when it renders `variables`. The content must
// be text.
bool writes_content(const ChatTemplate& chat_template, const jinja::Value& variables, std::size_t message);

struct TrainedTokens {
  std::vector<Token> ids;
  std::vector<int> mask;  // 1 for tokens that are trained on, otherwise 0
};

// The tokens of a part of a text: [begin, end). As in transformers, a token that crosses the beginning or the
// end of the part belongs to it. `ids` are the tokens of the whole text.
struct TokenSpan {
  std::size_t begin = 0, end = 0;
};
TokenSpan tokens_of(const Tokenizer& tokenizer, std::string_view text, const TextRange& part,
                    const std::vector<Token>& ids);

// Returns the tokens of a text, without special tokens that the tokenizer would add.
TrainedTokens trained_tokens(const Tokenizer& tokenizer, std::string_view text,
                             const std::vector<TextRange>& parts);

}  // namespace dpo::text
