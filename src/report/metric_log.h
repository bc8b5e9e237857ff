// report: metrics of a run as curves, HTML pages that need only a browser, and model cards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dpo::report {

struct Point {
  double x = 0, y = 0;
};

// The metrics.jsonl of a run: a line of metrics for each update and evaluation.
class MetricLog {
 public:
  // A file that cannot be read is a UserError; a line cut off by a crash is skipped.
  explicit MetricLog(const std::filesystem::path& file);

  // A metric's values against the number of examples trained on; empty if there are none.
  const std::vector<Point>& points(const std::string& name) const;

 private:
  std::map<std::string, std::vector<Point>> points_;
};

// A number of a file as a whole one; beyond 1e15 it is cut.
std::int64_t whole_number(double number);

// At most `most` (2 or more) of `count` indices, evenly chosen, with the first and the last.
std::vector<std::size_t> some_of(std::size_t count, std::size_t most);

// At most `most` points: the means of that many groups of neighbours.
std::vector<Point> means_of(const std::vector<Point>& points, std::size_t most);

}  // namespace dpo::report
