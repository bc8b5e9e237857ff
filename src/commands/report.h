#pragma once

#include <filesystem>

namespace dpo::commands {

inline constexpr const char* kReport = "report.html";

// Writes report.html into the folder of a run. A UserError if it has no metrics, or cannot be written.
void write_report(const std::filesystem::path& run);

}  // namespace dpo::commands
