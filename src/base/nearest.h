#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo {

// Returns the candidate that `name` probably misspells, or nullopt if all differ by more than a few letters.
// Names with different digits never match.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// Returns "; did you mean 'x'?" or "", to end a message about an unknown name.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

// Returns true if a list of words separated by spaces contains this word.
bool has_word(std::string_view words, std::string_view word);

}  // namespace dpo
