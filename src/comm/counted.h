#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/group.h"

namespace dpo::comm {

// Counts the collective operations that a process has begun.
using OperationCount = std::atomic<std::uint64_t>;

// Wraps a group so that it and all groups split from it count their operations for the watchdog. Completing
// an operation also counts as progress of this process (base/progress_count.h).
std::shared_ptr<Group> counted(std::shared_ptr<Group> group, std::shared_ptr<OperationCount> count);

// Returns a counted group whose operations are not counted. It is for operations that not all ranks of a run
// begin equally often. Completing one still counts as progress.
std::shared_ptr<Group> uncounted(const std::shared_ptr<Group>& group);

}  // namespace dpo::comm
