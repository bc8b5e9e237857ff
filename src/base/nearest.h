#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo {

// The candidate that `name` was probably meant to be, if one differs by so few letters that it is a slip of
// the keyboard. Names with other digits are other names.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "; did you mean 'x'?", or empty: the end of a message about an unknown name.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace dpo
