#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dpo::optim {

double Schedule::at(std::int64_t update) const {
  const double rise = std::min(1.0, static_cast<double>(update + 1) / static_cast<double>(warmup + 1));
  if (update < warmup) return learning_rate * rise;
  const auto after = static_cast<double>(std::max<std::int64_t>(1, updates - warmup));
  const double passed = std::min(1.0, static_cast<double>(update - warmup) / after);
  switch (kind) {
    case config::Schedule::constant: break;
    case config::Schedule::linear: return learning_rate * (1 - passed);
    case config::Schedule::cosine: return learning_rate * (0.5 * (1 + std::cos(std::numbers::pi * passed)));
  }
  return learning_rate;
}

}  // namespace dpo::optim
