// report: metrics of a run as curves, HTML pages that need only a browser, and model cards.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dpo::report {

struct Point {
  double x = 0, y = 0;
};

// The metrics.jsonl of a run: a line of metrics for each update and evaluation.
class MetricLog {
 public:
  // A file that cannot be read is a UserError; a line cut off by a crash is skipped.
  explicit MetricLog(const std::filesystem::path& file);

  // A metric's values against the number of examples trained on.
  std::vector<Point> points(const std::string& name) const;

 private:
  std::vector<nlohmann::json> lines_;
};

}  // namespace dpo::report
