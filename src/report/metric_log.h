// report: what a run has measured, for people: curves and pages that need nothing but a browser.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dpo::report {

struct Point {
  double x = 0, y = 0;
};

// The metrics.jsonl of a run: a line of names and numbers for each update and evaluation.
class MetricLog {
 public:
  // A file that cannot be read is a UserError; a line that a crash cut off is left out.
  explicit MetricLog(const std::filesystem::path& file);

  // A metric's values against the number of examples trained on.
  std::vector<Point> points(const std::string& name) const;

 private:
  std::vector<nlohmann::json> lines_;
};

}  // namespace dpo::report
