#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo {

// The candidate that `name` was probably meant to be, if one is close enough to be worth suggesting.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "; did you mean 'x'?", or empty: the end of a message about an unknown name.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace dpo
