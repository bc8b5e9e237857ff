#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "report/card.h"
#include "report/followed_run.h"

namespace dpo::report {

// The run that a report is about.
struct RunSource {
  std::filesystem::path folder;
  std::string name;                   // display name
  std::optional<CardRun> facts = {};  // from its configuration
  std::string problem = {};           // why there are no facts
};

// Returns report.html of a run: whether it learned, findings, curves, margins, examples, samples, plan and
// measurements, configuration. The number of points, examples and characters is bounded for any size of run.
// Throws UserError if the run has no metrics.
std::string run_page(const RunSource& run, const FollowedRun& followed);
std::string run_page(const RunSource& run);  // reads all files of the run

// Returns a report that compares several runs side by side, at most kMostCurves.
std::string comparison_page(std::span<const RunSource> runs);

}  // namespace dpo::report
