#pragma once

#include <cstdint>
#include <optional>

#include "report/metric_log.h"

namespace dpo::report {

// A reward accuracy in training that is far above the one on held-out examples.
struct AccuracyGap {
  double training = 0, held_out = 0;  // accuracies
  double training_margin = 0, held_out_margin = 0;
  double examples = 0;  // of the training part
};

// Compares the last tenth of the updates, of `batch` examples each, with an evaluation of
// `held_out_examples`. Returns nullopt unless the difference exceeds both 0.15 and three of its standard
// deviations.
std::optional<AccuracyGap> find_accuracy_gap(const Series& accuracies, const Series& margins, double batch,
                                             const Evaluation& held_out, double held_out_examples);

}  // namespace dpo::report
