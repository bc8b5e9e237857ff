#pragma once

#include <filesystem>
#include <optional>

#include "config/run_config.h"

namespace dpo::data {

// The folder of the configured tokenizer, on this disk or in the Hugging Face cache; nullopt if it is in
// neither.
std::optional<std::filesystem::path> find_tokenizer_folder(const config::RunConfig& config);

// The same; if there is none, a UserError that says how to get it.
std::filesystem::path tokenizer_folder(const config::RunConfig& config);

}  // namespace dpo::data
