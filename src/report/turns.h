// Splits text that a chat template has rendered into turns of a conversation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::report {

struct Turn {
  std::string role;  // empty if unknown, or if the text is no conversation
  std::string text;
};

// The way in which a family of chat templates (such as ChatML) marks turns.
struct TurnStyle;

// Returns the style of a rendered prompt, or nullptr if it is unknown.
const TurnStyle* turn_style_of(std::string_view prompt);

// Returns the turns of a prompt, or of an answer to it, without markers and surrounding white space. An
// answer begins with a turn without a role. Without a style, the text is one turn, unchanged.
std::vector<Turn> turns_of(std::string_view text, const TurnStyle* style);

// Return the turns with the first or the last `most` characters of their texts, and a note of how much is
// left out.
std::vector<Turn> beginning_of(const std::vector<Turn>& turns, std::size_t most);
std::vector<Turn> end_of(const std::vector<Turn>& turns, std::size_t most);

}  // namespace dpo::report
