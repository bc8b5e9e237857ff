#include "data/tokenized_prompt.h"

#include <algorithm>

#include "data/token_file.h"

namespace dpo::data {
namespace {

TokenizedText tokenize(const std::string& text, const text::Tokenizer& tokenizer, Token eos) {
  TokenizedText result{tokenizer.encode(text), 0, {}};
  if (result.tokens.empty()) result.flags |= kIsEmpty;
  if (std::find(result.tokens.begin(), result.tokens.end(), eos) != result.tokens.end())
    result.flags |= kHasEos;
  return result;
}

// Tokenizes the prompt, then its responses.
std::vector<TokenizedText> tokenize(const PromptText& prompt, const text::Tokenizer& tokenizer, Token eos) {
  std::vector<TokenizedText> texts = {tokenize(prompt.prompt, tokenizer, eos)};
  for (const std::string& response : prompt.responses) {
    texts.push_back(tokenize(response, tokenizer, eos));
    texts.back().tokens.push_back(eos);
  }
  return texts;
}

}  // namespace

std::optional<ChatTokenizer> chat_of(const Source& source, const config::RunConfig& config,
                                     const text::Tokenizer& tokenizer) {
  return source.chat ? std::optional<ChatTokenizer>(std::in_place, config, tokenizer) : std::nullopt;
}

TokenizedPrompt tokenize_prompt(const PromptText& prompt, const text::Tokenizer& tokenizer,
                                const std::optional<ChatTokenizer>& chat, Token eos) {
  TokenizedPrompt made;
  const PromptText* left = &prompt;
  while (made.texts.empty() && !left->responses.empty()) try {
      made.texts = chat ? chat->tokenize(*left) : tokenize(*left, tokenizer, eos);
    } catch (const ChatError& error) {
      made.refused.push_back({left->origins.at(error.response), error.what()});
      made.rest = without_row(*left, made.refused.back().row);
      left = &*made.rest;
    }
  return made;
}

}  // namespace dpo::data
