#pragma once

#include <filesystem>
#include <optional>

#include "config/run_config.h"

namespace dpo::data {

// Returns the folder of the configured tokenizer, on this disk or in the Hugging Face cache. Returns nullopt
// if it is in neither.
std::optional<std::filesystem::path> find_tokenizer_folder(const config::RunConfig& config);

// Returns the folder of the configured tokenizer. Throws a UserError that explains how to get it if there is
// none.
std::filesystem::path tokenizer_folder(const config::RunConfig& config);

}  // namespace dpo::data
