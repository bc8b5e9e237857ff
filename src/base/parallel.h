#pragma once

#include <cstddef>
#include <functional>

namespace dpo {

// Returns the cores that this process may use. A container or a job system often provides fewer than the
// machine has.
std::size_t usable_cores();

// Calls work(0) ... work(count - 1) on several threads (0: all usable cores), `grain` calls at a time, in any
// order. After an exception no thread takes another `grain` of calls, and the exception with the lowest index
// is rethrown.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::size_t threads = 0, std::size_t grain = 16);

}  // namespace dpo
