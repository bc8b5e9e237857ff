#pragma once

#include <cstdint>

namespace dpo {

// Counts the work of this process, so that the watchdog of a run can tell a rank that is busy from one that
// is stuck. Whatever may take minutes calls count_progress() after each part: a piece of a file, a block of a
// model, some rows. A call costs some nanoseconds and may come from any thread.
void count_progress() noexcept;

// The number of calls so far. Rises with each call while there is a WritingToUser.
std::uint64_t progress_count() noexcept;

// Exists while this process writes to its user. A pager, or a terminal stopped with Ctrl-S, may make it wait
// for hours, which must not end the run.
class WritingToUser {
 public:
  WritingToUser() noexcept;
  ~WritingToUser();
  WritingToUser(const WritingToUser&) = delete;
  WritingToUser& operator=(const WritingToUser&) = delete;
};

}  // namespace dpo
