// What a run's figures say about it, in words.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/examples.h"
#include "run/metrics.h"
#include "run/samples.h"

namespace dpo::run {

// What was noticed, with the figures it rests on, and what to try.
struct Finding {
  std::string id;
  std::string text;
};

// Watches a run. Each call returns what is new, so that it is said once when it happens; `findings` are all
// of them, for the end of the run.
class Diagnosis {
 public:
  explicit Diagnosis(double max_gradient_norm) : max_gradient_norm_(max_gradient_norm) {}

  std::vector<Finding> look_at_data(std::span<const data::SourceCounts> counts);
  std::vector<Finding> after_update(const Metrics& metrics);
  std::vector<Finding> after_evaluation(const Metrics& metrics);
  std::vector<Finding> after_samples(std::span<const Sample> samples);

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  // What a finding compares: the first evaluation of this process, and how often something was seen.
  struct Samples {
    double tokens = 0;
    double ended = 0;
  };
  std::vector<Finding> report(std::vector<Finding> noticed);

  double max_gradient_norm_;
  std::int64_t clipped_in_a_row_ = 0;
  double updates_ = 0;
  std::optional<Metrics> first_evaluation_;
  std::optional<Samples> first_samples_;
  std::set<std::string> said_;
  std::vector<Finding> findings_;
};

}  // namespace dpo::run
