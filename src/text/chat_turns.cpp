#include "text/chat_turns.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"

namespace dpo::text {
namespace {

using jinja::Dict;
using jinja::Value;

// Returns the variables with other messages.
Value with_messages(const Value& variables, jinja::Values messages, bool generation_prompt) {
  Dict changed;
  for (const auto& [name, value] : variables.dict().entries()) changed.set(name, value);
  changed.set("messages", Value::list(std::move(messages)));
  changed.set("add_generation_prompt", generation_prompt);
  return changed;
}

// Returns the variables with the first `count` messages.
Value first_messages(const Value& variables, std::size_t count, bool generation_prompt) {
  const jinja::Values& all = variables.find("messages")->items();
  return with_messages(variables, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)},
                       generation_prompt);
}

// Returns where `start` stops being a prefix of the text, at the beginning of a character.
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

// The text that the template writes before and after the content of a message. around_content returns nullopt
// if the template does not write the content unchanged.
struct AroundContent {
  std::string before, after;
};
std::optional<AroundContent> around_content(const ChatTemplate& chat_template, const Value& variables,
                                            std::size_t message) {
  constexpr std::string_view kMark = "8dc1f0a2-the-content-of-the-message";  // does not occur in texts
  jinja::Values messages = variables.find("messages")->items();
  Dict replaced;
  for (const auto& [name, value] : messages[message].dict().entries())
    replaced.set(name, name.is_string() && name.string() == "content" ? Value(kMark) : value);
  messages[message] = std::move(replaced);
  const std::string text = chat_template.render(with_messages(variables, std::move(messages), false)).text;
  const std::size_t found = text.rfind(kMark);
  if (found == std::string::npos) return std::nullopt;
  return AroundContent{text.substr(0, found), text.substr(found + kMark.size())};
}

// Returns the range of a turn of the assistant. Its text in the whole conversation may differ from its text
// at the end of one. It is then found by the text around its content.
TextRange turn_of(const ChatTemplate& chat_template, const Value& variables, std::string_view text,
                  std::size_t message) {
  const std::string asked =
      message > 0 ? chat_template.render(first_messages(variables, message, true)).text : "";
  const std::string answered = chat_template.render(first_messages(variables, message + 1, false)).text;
  TextRange turn{common_length(text, asked), common_length(text, answered)};
  if (turn.begin == asked.size() && turn.end == answered.size()) return turn;
  const auto whole = around_content(chat_template, variables, message);
  const auto last = around_content(chat_template, first_messages(variables, message + 1, false), message);
  if (!whole || !last || !text.ends_with(whole->after)) return turn;
  if (turn.begin < asked.size() && text.starts_with(whole->before))
    turn.begin = std::max(turn.begin, whole->before.size());
  if (turn.end < answered.size())
    turn.end =
        std::max(turn.end, text.size() - whole->after.size() + common_length(whole->after, last->after));
  return turn;
}

struct Boundary {
  std::size_t tokens;  // tokens that end before the boundary
  bool crossed;        // true if the next token crosses it
};

Boundary find_boundary(const Tokenizer& tokenizer, std::string_view before, const std::vector<Token>& all) {
  const std::vector<Token> ids = tokenizer.encode(before);
  const auto differs = std::mismatch(ids.begin(), ids.end(), all.begin(), all.end());
  return {static_cast<std::size_t>(differs.first - ids.begin()), differs.first != ids.end()};
}

}  // namespace

std::size_t start_of_turn(const ChatTemplate& chat_template, const Value& variables, const RenderedChat& chat,
                          std::size_t message) {
  return common_length(chat.text, chat_template.render(first_messages(variables, message, true)).text);
}

bool writes_content(const ChatTemplate& chat_template, const Value& variables, std::size_t message) try {
  return around_content(chat_template, variables, message).has_value();
} catch (const TemplateError&) {
  return true;  // a template that rejects another content reads it
}

std::vector<TextRange> assistant_text(const ChatTemplate& chat_template, const Value& variables,
                                      const RenderedChat& chat, std::size_t first) {
  if (chat.marked) return chat.generated;
  std::vector<TextRange> turns;
  const jinja::Values& messages = variables.find("messages")->items();
  for (std::size_t i = first; i < messages.size(); ++i) {
    if (!is_assistant(messages[i])) continue;
    const TextRange turn = turn_of(chat_template, variables, chat.text, i);
    if (turn.begin < turn.end) turns.push_back(turn);
  }
  return turns;
}

TokenSpan tokens_of(const Tokenizer& tokenizer, std::string_view text, const TextRange& part,
                    const std::vector<Token>& ids) {
  const Boundary begin = find_boundary(tokenizer, text.substr(0, part.begin), ids);
  const Boundary end = find_boundary(tokenizer, text.substr(0, part.end), ids);
  return {begin.tokens, std::min(end.tokens + (end.crossed ? 1 : 0), ids.size())};
}

TrainedTokens trained_tokens(const Tokenizer& tokenizer, std::string_view text,
                             const std::vector<TextRange>& parts) {
  TrainedTokens result{tokenizer.encode(text), {}};
  result.mask.resize(result.ids.size(), 0);
  for (const TextRange& part : parts) {
    const TokenSpan span = tokens_of(tokenizer, text, part, result.ids);
    for (std::size_t i = span.begin; i < span.end; ++i) result.mask[i] = 1;
  }
  return result;
}

}  // namespace dpo::text
