#pragma once

#include <filesystem>
#include <string>

#include "engine/train.h"

namespace dpo::engine {

// The files of a finished run, and what to do with them.
std::string list_files(const TrainResult& run, bool is_merged);

// adapter.merge_on_save: writes RUN/merged, the model with the newest checkpoint's adapter.
void merge_latest(const std::filesystem::path& folder);

}  // namespace dpo::engine
