// report: shows the metrics of runs as curves and HTML pages that need only a browser, and writes model
// cards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_line.h"
#include "report/series.h"

namespace dpo::report {

// The means of an evaluation over held-out examples.
struct Evaluation {
  double examples = 0;  // number of examples trained on before it
  double loss = 0;
  std::optional<double> accuracy = {}, margin = {};  // for preference losses, as in the file; see accuracy.h
  std::int64_t held_out = 0;                         // number of examples that are averaged; 0: unknown
};

// Reads a run's metrics.jsonl, one line for each update and evaluation, as curves. Its memory grows with the
// number of evaluations, but not with that of updates.
class MetricLog {
 public:
  MetricLog() = default;
  // Throws UserError if the file cannot be read. Skips a line that a crash has cut off.
  explicit MetricLog(const std::filesystem::path& file);

  void add_line(std::string_view line);

  // Returns a metric's values against the number of examples trained on; empty if there are none. An accuracy
  // of 0 in which all pairs are ties becomes 0.5, so that a curve does not begin at 0.
  const Series& series(const std::string& name) const;
  const std::map<std::string, Series>& all() const { return series_; }

  // Returns the means over held-out examples, in the order of the file.
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }

 private:
  void add_evaluation(double examples);

  std::map<std::string, Series> series_;
  std::vector<Evaluation> evaluations_;
  NamedNumbers numbers_;  // of the last line
};

// Rounds a number from a file, limited to ±1e15.
std::int64_t whole_number(double number);

}  // namespace dpo::report
