#pragma once

#include <cstdint>

namespace dpo {

// Counts the work of this process, so that the watchdog of a run can tell a rank that is busy from one that
// is stuck. Whatever may take minutes calls count_progress() after each part: a piece of a file, a block of a
// model, some rows. A call costs some nanoseconds and may come from any thread.
void count_progress() noexcept;

// The number of calls so far. Rises with each call while a WaitingForOthers exists.
std::uint64_t progress_count() noexcept;

// Exists while this process waits for something outside of the run that may take hours, which must not end
// the run: a pager, a terminal stopped with Ctrl-S, or a file that another run has locked.
class WaitingForOthers {
 public:
  WaitingForOthers() noexcept;
  ~WaitingForOthers();
  WaitingForOthers(const WaitingForOthers&) = delete;
  WaitingForOthers& operator=(const WaitingForOthers&) = delete;
};

}  // namespace dpo
