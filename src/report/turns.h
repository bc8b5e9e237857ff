// Conversations in text that a chat template has rendered.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::report {

struct Turn {
  std::string role;  // empty: unknown, or the text is no conversation
  std::string text;
};

// How a family of chat templates marks turns, such as ChatML.
struct TurnStyle;

// Returns the style of a rendered prompt; nullptr if it is none that is known.
const TurnStyle* turn_style_of(std::string_view prompt);

// Returns the turns of a prompt, or of an answer to it, without markers and the white space around them. An
// answer begins with a turn without a role. Without a style, the text is one turn, unchanged.
std::vector<Turn> turns_of(std::string_view text, const TurnStyle* style);

// The turns with the first or the last `most` characters of their texts; they say how much is left out.
std::vector<Turn> beginning_of(const std::vector<Turn>& turns, std::size_t most);
std::vector<Turn> end_of(const std::vector<Turn>& turns, std::size_t most);

}  // namespace dpo::report
