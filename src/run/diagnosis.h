// Warnings about problems that a run's metrics show.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/examples.h"
#include "report/metric_log.h"
#include "run/metrics.h"
#include "run/samples.h"

namespace dpo::run {

// A problem, the values that show it, and what to try.
struct RunWarning {
  std::string id;
  std::string text;
};

// Watches a run. Each call returns only new warnings, so each is printed once, when it happens. `warnings`
// returns all of them, for the end of the run.
class Diagnosis {
 public:
  explicit Diagnosis(std::optional<double> max_gradient_norm) : max_gradient_norm_(max_gradient_norm) {}

  std::vector<RunWarning> after_loading(std::span<const data::SourceCounts> counts);
  std::vector<RunWarning> after_update(const Metrics& metrics);
  std::vector<RunWarning> after_evaluation(const Metrics& metrics);
  std::vector<RunWarning> after_samples(std::span<const Sample> all);

  const std::vector<RunWarning>& warnings() const { return warnings_; }

 private:
  // Means over the samples of one evaluation.
  struct SampleMeans {
    double tokens = 0;
    double ended = 0;
  };
  std::vector<RunWarning> report(std::vector<RunWarning> noticed);
  std::vector<RunWarning> find_memorising(const Metrics& evaluation);

  std::optional<double> max_gradient_norm_;  // null: no clipping
  std::int64_t clipped_in_a_row_ = 0;
  double updates_ = 0;
  double epoch_ = 0;                     // training examples per epoch
  report::Series accuracies_, margins_;  // of training batches
  std::optional<Metrics> first_evaluation_;
  std::optional<report::Evaluation> last_evaluation_;
  std::optional<SampleMeans> first_samples_;
  std::set<std::string> reported_;
  std::vector<RunWarning> warnings_;
};

}  // namespace dpo::run
