#include "data/end_of_turn.h"

#include <limits>

#include "base/error.h"
#include "data/token_cache.h"

namespace dpo::data {
namespace {

constexpr std::string_view kAnswer = "An answer.";

std::vector<Token> answer_tokens(const ChatTokenizer& chat) {
  PromptText example;
  example.chat = true;
  example.prompt = R"({"messages": [{"role": "user", "content": "A question?"}]})";
  example.responses = {R"([{"role": "assistant", "content": "An answer."}])"};
  try {
    return chat.tokenize(example).at(1).tokens;
  } catch (const ChatError&) {
    return {};
  }
}

std::string without_outer_space(const std::string& text) {
  const auto begin = text.find_first_not_of(" \n\t\r");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \n\t\r") - begin + 1);
}

}  // namespace

EndOfTurn end_of_turn(const ChatTokenizer& chat, const text::Tokenizer& tokenizer) {
  const std::vector<Token> tokens = answer_tokens(chat);
  std::string text;  // text up to the current token
  std::size_t answer = std::string::npos;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (answer != std::string::npos && tokenizer.is_special(tokens[i]))
      return {tokens[i], without_outer_space(text.substr(answer + kAnswer.size()))};
    text = tokenizer.decode(std::span(tokens).first(i + 1));
    answer = text.find(kAnswer);
  }
  return {};
}

text::AnswerEnds answer_ends(const ChatTokenizer& chat, const text::Tokenizer& tokenizer) {
  text::AnswerEnds ends{{end_of_text(tokenizer)}, tokenizer.pad()};
  if (const auto token = end_of_turn(chat, tokenizer).token; token && *token != ends.tokens.front())
    ends.tokens.push_back(*token);
  return ends;
}

std::optional<text::AnswerEnds> answer_ends(const std::filesystem::path& folder, std::string& problem) try {
  if (!text::find_chat_template(folder)) return std::nullopt;
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  config::RunConfig settings;
  settings.max_length = std::numeric_limits<std::int64_t>::max();
  return answer_ends(ChatTokenizer(settings, tokenizer), tokenizer);
} catch (const UserError& error) {
  problem = error.what();
  return std::nullopt;
}

}  // namespace dpo::data
