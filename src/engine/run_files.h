#pragma once

#include <filesystem>
#include <string>

#include "engine/train.h"

namespace dpo::engine {

// Lists the files of a finished run with the commands that use them.
std::string list_files(const TrainResult& run, bool is_merged);

// Writes RUN/merged, the model with the newest checkpoint's adapter (adapter.merge_on_save).
void merge_latest(const std::filesystem::path& folder);

}  // namespace dpo::engine
