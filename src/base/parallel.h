#pragma once

#include <cstddef>
#include <functional>

namespace dpo {

// The cores that this process may use: a container or a job system often gives fewer than the machine has.
std::size_t usable_cores();

// Calls work(0) ... work(count - 1) on several threads (0: on all usable cores), `grain` calls at a time, in
// any order. After an exception no new call starts; the one with the lowest index is rethrown.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads = 0, std::size_t grain = 16);

}  // namespace dpo
