#pragma once

#include <cstdint>

namespace dpo {

// Counts the work of this process, so that a run's watchdog can distinguish a busy rank from one that is
// stuck. Work that may take minutes calls count_progress() after each part: a piece of a file, a block of a
// model, some rows. A call takes nanoseconds and may come from any thread.
void count_progress() noexcept;

// Returns the number of calls so far. While a WaitingForOthers exists, each call of this function counts too.
std::uint64_t progress_count() noexcept;

// Exists while this process waits for something outside the run that may take hours and must not end the run:
// a pager, a terminal stopped with Ctrl-S, or a file that another run has locked.
class WaitingForOthers {
 public:
  WaitingForOthers() noexcept;
  ~WaitingForOthers();
  WaitingForOthers(const WaitingForOthers&) = delete;
  WaitingForOthers& operator=(const WaitingForOthers&) = delete;
};

}  // namespace dpo
