#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace dpo::run {

// Where a run writes, and where it goes on from.
struct Start {
  std::filesystem::path folder;
  std::optional<std::filesystem::path> checkpoint{};
  bool replaces = false;  // the folder holds another run, which is to be moved aside
  std::vector<std::string> notes{};
};

// Looks, and touches nothing. A folder that already holds a run is a UserError, unless that run is resumed or
// `overwrite` is set.
Start find_start(const config::RunConfig& config);

// Loading takes a while: whether what was found is still so, asked by who holds the run's lock. A UserError
// if not.
void require_unchanged(const Start& start, const config::RunConfig& config);

// Renames the folder of a run, and returns the new name. Refuses while another process writes that run.
std::filesystem::path move_run_aside(const std::filesystem::path& folder);

}  // namespace dpo::run
