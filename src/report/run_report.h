#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "report/card.h"
#include "report/followed_run.h"

namespace dpo::report {

// A run to report about.
struct RunSource {
  std::filesystem::path folder;
  std::string name;                   // as it is shown
  std::optional<CardRun> facts = {};  // from its configuration
  std::string problem = {};           // why there are none
};

// report.html of a run: whether it learned, findings, curves, margins, examples, samples, plan and reality,
// configuration. Whatever the size of the run, it has a bounded number of points, examples and characters. A
// UserError if the run has no metrics.
std::string run_page(const RunSource& run, const FollowedRun& followed);
std::string run_page(const RunSource& run);  // reads all of its files

// The same of several runs, side by side; at most kMostCurves.
std::string comparison_page(std::span<const RunSource> runs);

}  // namespace dpo::report
