#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dpo::demo {

// Makes the folder of a demonstration, empty but for files of others in one that a demonstration made before.
// One that is neither is a UserError.
void claim_folder(const std::filesystem::path& folder);

// The words that 'dpo train' takes for the two runs; the second starts from what the first has left.
std::vector<std::string> sft_words(const std::filesystem::path& folder);
std::vector<std::string> dpo_words(const std::filesystem::path& folder);

// A command for a shell, over several lines where it is long.
std::string shell_command(const std::vector<std::string>& words);

}  // namespace dpo::demo
