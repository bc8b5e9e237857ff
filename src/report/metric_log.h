// report: metrics of a run as curves, HTML pages that need only a browser, and model cards.
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

// The means of an evaluation.
struct Evaluation {
  double examples = 0;  // trained on before
  double loss = 0;
  std::optional<double> accuracy = {}, margin = {};  // of preference losses, as in the file: see accuracy.h
  std::int64_t held_out = 0;                         // how many examples they are means of; 0: unknown
};

// The lines of a run's metrics.jsonl, one for each update and evaluation, as curves: in memory that grows
// with the number of evaluations, not with that of updates.
class MetricLog {
 public:
  MetricLog() = default;
  // A file that cannot be read is a UserError; a line cut off by a crash is skipped.
  explicit MetricLog(const std::filesystem::path& file);

  void add_line(std::string_view line);

  // A metric's values against the number of examples trained on; empty if there are none. In accuracies ties
  // count as half, so that a curve does not begin at 0.
  const Series& series(const std::string& name) const;
  const std::map<std::string, Series>& all() const { return series_; }

  // The means over held-out examples, in the order of the file.
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }

 private:
  void add_evaluation(double examples);

  std::map<std::string, Series> series_;
  std::vector<Evaluation> evaluations_;
  NamedNumbers numbers_;  // of a line
};

// A number of a file as a whole one; beyond 1e15 it is cut.
std::int64_t whole_number(double number);

}  // namespace dpo::report
