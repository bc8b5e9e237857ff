#pragma once

#include <string>
#include <vector>

namespace dpo {

// A shell command, over several lines where it is long.
std::string shell_command(const std::vector<std::string>& arguments);

}  // namespace dpo
