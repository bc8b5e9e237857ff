#include <ranges>

#include "data/chat_parts.h"

namespace dpo::data {
namespace {

using text::jinja::Values;

// Returns the smallest number in [1, most) for which is_enough is true, or `most`.
template <class IsEnough>
std::size_t fewest(std::size_t most, IsEnough is_enough) {
  const auto numbers = std::views::iota(std::size_t{1}, most);
  return *std::ranges::partition_point(numbers, [&](std::size_t number) { return !is_enough(number); });
}

}  // namespace

// Returns the number of messages at the start that are never dropped: 1 for a system message.
std::size_t ChatTokenizer::begin_of_turns(const Values& messages) const {
  const bool is_system =
      !messages.empty() && (role_of(messages[0]) == "system" || role_of(messages[0]) == "developer");
  return keep_system_ && is_system ? 1 : 0;
}

// Drops turns of a conversation that is too long and returns whether it dropped any. Their number is found by
// bisection, because each attempt renders the conversation.
bool ChatTokenizer::drop_turns(Chat& chat, std::vector<Values>& responses, Encoded& encoded) const {
  const auto is_too_long = [&](const std::vector<Token>& whole) {
    return static_cast<std::int64_t>(whole.size()) > max_length_;
  };
  const auto prompt_fits = [&](const Encoded& shorter) {
    return std::ranges::none_of(shorter.tokens, is_too_long) ||
           static_cast<std::int64_t>(shorter.prompt) <= max_prompt_length_;
  };
  if (std::ranges::none_of(encoded.tokens, is_too_long)) return false;
  bool dropped = false;
  const std::size_t begin = begin_of_turns(chat.messages);
  if (const auto users = positions_of("user", chat.messages, begin);
      users.size() > 1 && !prompt_fits(encoded)) {
    const auto without_first = [&](std::size_t turns) {
      Chat shorter = chat;
      shorter.messages.erase(shorter.messages.begin() + static_cast<std::ptrdiff_t>(begin),
                             shorter.messages.begin() + static_cast<std::ptrdiff_t>(users[turns]));
      return shorter;
    };
    chat = without_first(fewest(users.size() - 1, [&](std::size_t turns) {
      return prompt_fits(encode(without_first(turns), responses));
    }));
    encoded = encode(chat, responses);
    dropped = true;
  }
  for (std::size_t r = 0; r < responses.size(); ++r) {
    const auto answers = positions_of("assistant", responses[r]);
    if (answers.size() < 2 || !is_too_long(encoded.tokens[r + 1])) continue;
    const auto without_last = [&](std::size_t turns) {
      return Values(
          responses[r].begin(),
          responses[r].begin() + static_cast<std::ptrdiff_t>(answers[answers.size() - 1 - turns] + 1));
    };
    responses[r] = without_last(fewest(answers.size() - 1, [&](std::size_t turns) {
      return !is_too_long(encode(chat, {without_last(turns)}).tokens[1]);
    }));
    dropped = true;
  }
  if (dropped) encoded = encode(chat, responses);
  return dropped;
}

}  // namespace dpo::data
