#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "run/folder_claim.h"

namespace dpo::run {

// The folder where a run writes, and the checkpoint it resumes from.
struct Start {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> checkpoint{};
  bool replaces = false;  // the folder contains another run, which is renamed first
  std::vector<std::string> notes{};
};

// Finds where a run starts, without changing any file. Throws a UserError if the folder already contains a
// run, unless that run is resumed or `overwrite` is set.
Start find_start(const config::RunConfig& config);

// Creates and locks the folder before any expensive work. Runs that start in the same second get separate
// folders. Throws a UserError if another process is writing to the run or has written to it since find_start.
FolderClaim claim_folder(const Start& start, const config::RunConfig& config);

}  // namespace dpo::run
