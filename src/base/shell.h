#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dpo {

// Formats a shell command, on several lines if it is long.
std::string shell_command(const std::vector<std::string>& arguments);

// Returns the command that continues the run in a folder, on one line.
std::string resume_command(const std::filesystem::path& run);

}  // namespace dpo
