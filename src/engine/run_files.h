#pragma once

#include <filesystem>
#include <string>

namespace dpo::engine {

// The files of a finished run, and what to do with them.
std::string list_files(const std::filesystem::path& folder);

// adapter.merge_on_save: writes RUN/merged, the model with the newest checkpoint's adapter.
void merge_latest(const std::filesystem::path& folder);

}  // namespace dpo::engine
