#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/progress_count.h"

namespace dpo {

std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work, std::size_t threads,
                       std::size_t grain) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed_at = count;
  const auto run = [&] {
    for (std::size_t begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain)) {
      std::size_t i = begin;
      try {
        for (; i < std::min(begin + grain, count); ++i) work(i);
        count_progress();
      } catch (...) {
        next = count;  // every lower index has already begun
        const std::lock_guard lock(mutex);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t useful = std::min(threads > 0 ? threads : usable_cores(), (count + grain - 1) / grain);
    for (std::size_t i = 1; i < useful; ++i) helpers.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace dpo
