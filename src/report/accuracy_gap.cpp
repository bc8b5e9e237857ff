#include "report/accuracy_gap.h"

#include <cmath>

namespace dpo::report {
namespace {

constexpr double kLeastGap = 0.15;
constexpr double kDeviations = 3;
constexpr std::size_t kParts = 10;

// The share of successes among yes-or-no outcomes, with one success and one failure added (Agresti and
// Caffo). Without them, the error of few or equal outcomes would be underestimated.
struct Share {
  Share(double share, double count)
      : mean((share * count + 1) / (count + 2)), variance(mean * (1 - mean) / (count + 2)) {}
  double mean, variance;
};

}  // namespace

std::optional<AccuracyGap> find_accuracy_gap(const Series& accuracies, const Series& margins, double batch,
                                             const Evaluation& held_out, double held_out_examples) {
  if (accuracies.empty() || margins.empty() || !held_out.accuracy || !held_out.margin ||
      !(held_out_examples > 0))
    return std::nullopt;
  const double updates = std::ceil(static_cast<double>(accuracies.size()) / kParts);
  const AccuracyGap gap{.training = accuracies.means(kParts).back().y,
                        .held_out = *held_out.accuracy,
                        .training_margin = margins.means(kParts).back().y,
                        .held_out_margin = *held_out.margin,
                        .examples = std::round(updates * batch)};
  const Share training(gap.training, gap.examples), other(gap.held_out, held_out_examples);
  const double difference = training.mean - other.mean;
  const bool is_real = difference > kDeviations * std::sqrt(training.variance + other.variance);
  return gap.training - gap.held_out > kLeastGap && is_real ? std::optional(gap) : std::nullopt;
}

}  // namespace dpo::report
