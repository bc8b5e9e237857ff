#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "run/folder_claim.h"

namespace dpo::run {

// Where a run writes, and which checkpoint it resumes from.
struct Start {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> checkpoint{};
  bool replaces = false;  // the folder contains another run, which is renamed first
  std::vector<std::string> notes{};
};

// Changes nothing. A folder that already contains a run is a UserError, unless that run is resumed or
// `overwrite` is set.
Start find_start(const config::RunConfig& config);

// Creates and locks the folder, before anything expensive is done. Runs that start in the same second get
// separate folders. A UserError if another process writes to the run, or has written to it since find_start.
FolderClaim claim_folder(const Start& start, const config::RunConfig& config);

}  // namespace dpo::run
