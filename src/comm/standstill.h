// Detects a standstill of a run, in which its ranks are alive but make no progress.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/messages.h"

namespace dpo::comm {

// Durations without any progress after which the watchdog warns, and ends the run.
struct StandstillLimits {
  std::chrono::milliseconds warn, end;
};

// Returns five and thirty times rank_timeout_secs: 5 and 30 minutes if it is 60. A rank only goes this long
// without counting progress if its disk, GPU or network hangs.
StandstillLimits standstill_limits(std::chrono::milliseconds rank_timeout);

// Returns the timeout of a collective operation over NCCL. It is twice as long as a standstill may last, so
// that the watchdog, which knows the rank that is stuck, acts first. NCCL itself only ends operations that
// all ranks have begun and that never finish.
std::chrono::milliseconds nccl_timeout(std::chrono::milliseconds rank_timeout);

// Tracks the progress of all ranks on rank 0. A rank is stuck if no rank makes progress and it has begun
// fewer collective operations than another rank, which must be waiting for it. A rank that waits for another
// is never the one with the fewest.
class Standstill {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Standstill(int size, Time now) : progress_(static_cast<std::size_t>(size)), last_change_(now) {}

  void update(int rank, const Progress& progress, Time now);

  // Restarts the clock, because this process did not run for a while and knows nothing about that time.
  void restart(Time now) { last_change_ = now; }

  std::chrono::milliseconds duration(Time now) const;

  // Returns the ranks that the others wait for, or none if all have begun the same number of operations.
  std::vector<int> stuck() const;

 private:
  std::vector<Progress> progress_;
  Time last_change_;
};

}  // namespace dpo::comm
