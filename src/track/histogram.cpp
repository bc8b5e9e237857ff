#include "track/histogram.h"

#include <algorithm>
#include <cmath>

namespace dpo::track {

Histogram histogram_of(std::span<const double> values) {
  constexpr int kBins = 30;
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
  const auto [least, most] = std::ranges::minmax(finite.empty() ? std::vector<double>{0} : finite);
  Histogram histogram;
  for (int i = 0; i < kBins; ++i) histogram.edges.push_back(least + (most - least) * i / kBins);
  histogram.edges.push_back(most);
  histogram.counts.resize(kBins);
  for (const double value : finite) {
    // The largest value belongs to the last bin. If all values are equal, they belong to it too.
    const auto above = std::ranges::upper_bound(histogram.edges, value) - histogram.edges.begin();
    ++histogram.counts[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(above - 1, 0, kBins - 1))];
    ++histogram.count;
    histogram.sum += value;
    histogram.sum_of_squares += value * value;
  }
  return histogram;
}

}  // namespace dpo::track
