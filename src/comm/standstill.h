// Detects a standstill of a run: its ranks are alive, but no work is done.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/messages.h"

namespace dpo::comm {

// Without any progress for so long, the watchdog warns, and ends the run.
struct StandstillLimits {
  std::chrono::milliseconds warn, end;
};

// Five and thirty times rank_timeout_secs: 5 and 30 minutes if it is 60. A rank may be busy for so long
// without counting progress only if its disk, its GPU or its network hangs.
StandstillLimits standstill_limits(std::chrono::milliseconds rank_timeout);

// The timeout of a collective operation over NCCL: twice as long as a standstill may last, so that the
// watchdog comes first, since it knows which rank is stuck. NCCL itself only ends an operation that all ranks
// have begun and that never ends.
std::chrono::milliseconds nccl_timeout(std::chrono::milliseconds rank_timeout);

// The progress of all ranks, as rank 0 knows it. A rank is stuck if no rank makes progress and it has begun
// fewer collective operations than another: that one waits for it. A rank that waits for another is never the
// one with the fewest.
class Standstill {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Standstill(int size, Time now) : progress_(static_cast<std::size_t>(size)), last_change_(now) {}

  void update(int rank, const Progress& progress, Time now);

  // This process did not run for a while, so it knows nothing of that time.
  void restart(Time now) { last_change_ = now; }

  std::chrono::milliseconds duration(Time now) const;

  // The ranks that the others wait for; none if all have begun the same operations.
  std::vector<int> stuck() const;

 private:
  std::vector<Progress> progress_;
  Time last_change_;
};

}  // namespace dpo::comm
