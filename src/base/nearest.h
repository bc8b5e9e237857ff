#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo {

// Returns the candidate that `name` probably misspells, or nullopt if none differs by only a few letters.
// Names with different digits never match.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "; did you mean 'x'?", or empty: the end of a message about an unknown name.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

// Returns whether a list of words, separated by spaces, has this word.
bool has_word(std::string_view words, std::string_view word);

}  // namespace dpo
