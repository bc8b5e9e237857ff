#include "base/progress_count.h"

#include <atomic>

namespace dpo {
namespace {

std::atomic<std::uint64_t> parts_done = 0;
std::atomic<int> waiters = 0;

}  // namespace

void count_progress() noexcept { parts_done.fetch_add(1, std::memory_order_relaxed); }

std::uint64_t progress_count() noexcept {
  if (waiters.load(std::memory_order_relaxed) > 0) count_progress();
  return parts_done.load(std::memory_order_relaxed);
}

WaitingForOthers::WaitingForOthers() noexcept { waiters.fetch_add(1, std::memory_order_relaxed); }
WaitingForOthers::~WaitingForOthers() { waiters.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace dpo
