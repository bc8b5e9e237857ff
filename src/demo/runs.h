#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dpo::demo {

// Creates the folder of a demonstration, or deletes the results of an earlier one in it. Throws UserError if
// the folder has other content and no demonstration created it.
void claim_folder(const std::filesystem::path& folder);

// Return the arguments of 'dpo train' for the two runs. DPO starts from the checkpoint of SFT or, with
// `lora`, trains an adapter over it.
std::vector<std::string> sft_arguments(const std::filesystem::path& folder);
std::vector<std::string> dpo_arguments(const std::filesystem::path& folder, bool lora);

}  // namespace dpo::demo
