#pragma once

#include <filesystem>

#include "report/run_report.h"

namespace dpo::commands {

inline constexpr const char* kReport = "report.html";

// Returns the source of a report for the run in a folder.
report::RunSource source_of(const std::filesystem::path& run);

// Writes report.html into the folder of a run. Throws a UserError if the run has no metrics or the report
// cannot be written. `followed` holds the run's files, so that only additions since the last call are read.
void write_report(const std::filesystem::path& run, report::FollowedRun& followed);

}  // namespace dpo::commands
