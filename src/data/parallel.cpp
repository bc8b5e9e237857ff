#include "data/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dpo::data {
namespace {

// The cores that this process may use: a container or a job system often gives fewer than there are.
std::size_t usable_cores() {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  return known ? static_cast<std::size_t>(CPU_COUNT(&set))
               : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  constexpr std::size_t kStep = 16;  // taken at once, so that threads rarely meet
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      while (true) {
        const std::size_t begin = next.fetch_add(kStep);
        if (begin >= count) return;
        for (std::size_t i = begin; i < std::min(begin + kStep, count); ++i) work(i);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t useful = std::min(usable_cores(), (count + kStep - 1) / kStep);
    for (std::size_t i = 1; i < useful; ++i) threads.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace dpo::data
