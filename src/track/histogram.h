#pragma once

#include <span>
#include <vector>

namespace dpo::track {

// Counts the finite values in bins of equal width between the smallest and the largest.
struct Histogram {
  std::vector<double> edges;  // [counts + 1]
  std::vector<double> counts;
  double count = 0, sum = 0, sum_of_squares = 0;
};

Histogram histogram_of(std::span<const double> values);

}  // namespace dpo::track
