#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"

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

// Loading takes a while: a UserError if another process has written to the run since find_start. The caller
// holds the run's lock.
void require_unchanged(const Start& start, const config::RunConfig& config);

// Renames the folder of a run, and returns the new name. A UserError while another process writes to it.
std::filesystem::path move_run_aside(const std::filesystem::path& folder);

}  // namespace dpo::run
