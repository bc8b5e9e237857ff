#include "text/chat_turns.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"

namespace dpo::text {
namespace {

using jinja::Dict;
using jinja::Value;

// The variables with other messages.
Value with_messages(const Value& variables, jinja::Values messages, bool generation_prompt) {
  Dict changed;
  for (const auto& [name, value] : variables.dict().entries()) changed.set(name, value);
  changed.set("messages", Value::list(std::move(messages)));
  changed.set("add_generation_prompt", generation_prompt);
  return changed;
}

// The conversation up to a message, as variables.
Value first_messages(const Value& variables, std::size_t count, bool generation_prompt) {
  const jinja::Values& all = variables.find("messages")->items();
  return with_messages(variables, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)},
                       generation_prompt);
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

// What the template writes after the content of a message; nullopt if it does not write it as it is.
std::optional<std::string> text_after(const ChatTemplate& chat_template, const Value& variables,
                                      std::size_t message) {
  constexpr std::string_view kMark = "8dc1f0a2-the-content-of-the-message";  // in no text
  jinja::Values messages = variables.find("messages")->items();
  Dict replaced;
  for (const auto& [name, value] : messages[message].dict().entries())
    replaced.set(name, name.is_string() && name.string() == "content" ? Value(kMark) : value);
  messages[message] = std::move(replaced);
  const std::string text = chat_template.render(with_messages(variables, std::move(messages), false)).text;
  const std::size_t found = text.rfind(kMark);
  return found == std::string::npos ? std::nullopt : std::optional(text.substr(found + kMark.size()));
}

// Where a turn ends whose text is not the same in the whole conversation as at the end of one.
std::size_t end_of_old_turn(const ChatTemplate& chat_template, const Value& variables, std::string_view text,
                            std::size_t message) {
  const auto rest = text_after(chat_template, variables, message);
  const auto ending = text_after(chat_template, first_messages(variables, message + 1, false), message);
  if (!rest || !ending || !text.ends_with(*rest)) return 0;
  return text.size() - rest->size() + common_length(*rest, *ending);
}

TextRange turn_of(const ChatTemplate& chat_template, const Value& variables, std::string_view text,
                  std::size_t message) {
  TextRange turn;
  if (message > 0)
    turn.begin = common_length(text, chat_template.render(first_messages(variables, message, true)).text);
  const std::string with_it = chat_template.render(first_messages(variables, message + 1, false)).text;
  turn.end = common_length(text, with_it);
  if (turn.end < with_it.size())
    turn.end = std::max(turn.end, end_of_old_turn(chat_template, variables, text, message));
  return turn;
}

}  // namespace

std::vector<TextRange> assistant_text(const ChatTemplate& chat_template, const Value& variables,
                                      const RenderedChat& chat, std::size_t first) {
  if (chat_template.marks_generation()) return chat.generated;
  std::vector<TextRange> turns;
  const jinja::Values& messages = variables.find("messages")->items();
  for (std::size_t i = first; i < messages.size(); ++i) {
    if (!is_assistant(messages[i])) continue;
    const TextRange turn = turn_of(chat_template, variables, chat.text, i);
    if (turn.begin < turn.end) turns.push_back(turn);
  }
  return turns;
}

std::size_t tokens_before(const Tokenizer& tokenizer, std::string_view beginning,
                          const std::vector<Token>& whole) {
  const std::vector<Token> ids = tokenizer.encode(beginning);
  return static_cast<std::size_t>(std::mismatch(ids.begin(), ids.end(), whole.begin(), whole.end()).first -
                                  ids.begin());
}

TrainedTokens trained_tokens(const Tokenizer& tokenizer, std::string_view text,
                             const std::vector<TextRange>& parts) {
  TrainedTokens result{tokenizer.encode(text), {}};
  result.mask.resize(result.ids.size(), 0);
  for (const TextRange& part : parts) {
    const std::size_t begin = tokens_before(tokenizer, text.substr(0, part.begin), result.ids);
    const std::size_t end = tokens_before(tokenizer, text.substr(0, part.end), result.ids);
    for (std::size_t i = begin; i < end; ++i) result.mask[i] = 1;
  }
  return result;
}

}  // namespace dpo::text
