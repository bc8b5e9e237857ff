#include "comm/standstill.h"

#include <algorithm>

namespace dpo::comm {

StandstillLimits standstill_limits(std::chrono::milliseconds rank_timeout) {
  return {.warn = 5 * rank_timeout, .end = 30 * rank_timeout};
}

std::chrono::milliseconds nccl_timeout(std::chrono::milliseconds rank_timeout) {
  return 2 * standstill_limits(rank_timeout).end;
}

void Standstill::update(int rank, const Progress& progress, Time now) {
  Progress& known = progress_[static_cast<std::size_t>(rank)];
  if (known == progress) return;
  known = progress;
  last_change_ = now;
}

std::chrono::milliseconds Standstill::duration(Time now) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - last_change_);
}

std::vector<int> Standstill::stuck() const {
  const auto [fewest, most] =
      std::ranges::minmax(progress_, {}, [](const Progress& progress) { return progress.collectives; });
  std::vector<int> ranks;
  if (fewest.collectives == most.collectives) return ranks;
  for (std::size_t rank = 0; rank < progress_.size(); ++rank)
    if (progress_[rank].collectives == fewest.collectives) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace dpo::comm
