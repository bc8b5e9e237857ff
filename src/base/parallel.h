#pragma once

#include <cstddef>
#include <functional>

namespace dpo {

// The cores that this process may use: a container or a job system often gives fewer than the machine has.
std::size_t usable_cores();

// Calls work(0) ... work(count - 1) on `threads` threads (0: one per core that this process may use), each of
// which takes `grain` indices at a time. Of several exceptions the one of the lowest index is thrown, after
// all threads have stopped.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads = 0, std::size_t grain = 16);

}  // namespace dpo
