#pragma once

#include <filesystem>

#include "report/run_report.h"

namespace dpo::commands {

inline constexpr const char* kReport = "report.html";

// A run to report about, by its folder.
report::RunSource source_of(const std::filesystem::path& run);

// Writes report.html into the folder of a run. A UserError if it has no metrics, or cannot be written.
// `followed`: its files, of which only what was added since the last call is read.
void write_report(const std::filesystem::path& run, report::FollowedRun& followed);

}  // namespace dpo::commands
