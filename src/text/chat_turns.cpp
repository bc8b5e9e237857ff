#include "text/chat_turns.h"

#include <algorithm>

#include "base/utf8.h"

namespace dpo::text {
namespace {

using jinja::Dict;
using jinja::Value;

// The conversation up to a message, as variables.
Value first_messages(const Value& variables, std::size_t count, bool generation_prompt) {
  const jinja::Values& all = variables.find("messages")->items();
  Dict shorter;
  for (const auto& [name, value] : variables.dict().entries()) shorter.set(name, value);
  shorter.set("messages", Value::list({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)}));
  shorter.set("add_generation_prompt", generation_prompt);
  return shorter;
}

// Where `start` stops being a prefix of the text, at the beginning of a character.
std::size_t common_length(std::string_view text, std::string_view start) {
  const auto differs = std::mismatch(text.begin(), text.end(), start.begin(), start.end());
  auto length = static_cast<std::size_t>(differs.first - text.begin());
  while (length > 0 && length < text.size() && continues_character(text[length])) --length;
  return length;
}

bool is_assistant(const Value& message) {
  const Value* role = message.find("role");
  return role && role->is_string() && role->string() == "assistant";
}

std::size_t common_tokens(const Tokenizer& tokenizer, std::string_view start, const std::vector<Token>& all) {
  const std::vector<Token> ids = tokenizer.encode(start);
  return static_cast<std::size_t>(std::mismatch(ids.begin(), ids.end(), all.begin(), all.end()).first -
                                  ids.begin());
}

}  // namespace

std::vector<TextRange> assistant_text(const ChatTemplate& chat_template, const Value& variables,
                                      const RenderedChat& chat) {
  if (chat_template.marks_generation()) return chat.generated;
  std::vector<TextRange> turns;
  const jinja::Values& messages = variables.find("messages")->items();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!is_assistant(messages[i])) continue;
    TextRange turn;
    if (i > 0)
      turn.begin = common_length(chat.text, chat_template.render(first_messages(variables, i, true)).text);
    turn.end = common_length(chat.text, chat_template.render(first_messages(variables, i + 1, false)).text);
    if (turn.begin < turn.end) turns.push_back(turn);
  }
  return turns;
}

TrainedTokens trained_tokens(const Tokenizer& tokenizer, std::string_view text,
                             const std::vector<TextRange>& parts) {
  TrainedTokens result{tokenizer.encode(text), {}};
  result.mask.resize(result.ids.size(), 0);
  for (const TextRange& part : parts) {
    const std::size_t begin = common_tokens(tokenizer, text.substr(0, part.begin), result.ids);
    const std::size_t end = common_tokens(tokenizer, text.substr(0, part.end), result.ids);
    for (std::size_t i = begin; i < end; ++i) result.mask[i] = 1;
  }
  return result;
}

}  // namespace dpo::text
