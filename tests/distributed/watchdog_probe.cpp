// Runs ranks that do collective operations under a watchdog, until one of them fails:
// watchdog_probe TIMEOUT FAILURE RANK [STANDSTILL]. FAILURE: none, throw, memory, wait (until it is killed or
// stopped), hang (outside of collective operations), busy (for twice as long as a standstill may last). Times
// are in seconds.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include "base/progress_count.h"
#include "comm/counted.h"
#include "comm/watchdog.h"
#include "comm/world.h"

namespace dpo::comm {
namespace {

[[noreturn]] void end_after(int rank, const RankFailure& failure) {
  fmt::print(stderr, "rank {} ends: {}\n", rank, describe(failure));
  std::fflush(stderr);
  std::_Exit(failure.status);
}

std::chrono::milliseconds seconds_in(const char* text) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * std::stod(text)));
}

// Does a long operation of one rank, such as reading a large file.
void work_alone(std::chrono::milliseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    count_progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void fail_as(const std::string& failure, const StandstillLimits& limits) {
  if (failure == "throw") throw std::runtime_error("the data is bad");
  if (failure == "memory") throw std::bad_alloc();
  if (failure == "busy") work_alone(2 * limits.end);
  while (failure == "hang") ::pause();
}

// Runs one step, which needs all ranks.
void step(Group& all) {
  const at::Tensor one = at::ones({1000});
  all.all_reduce(one).wait();
  if (one[0].item<float>() != static_cast<float>(all.size())) throw std::logic_error("a wrong sum");
}

void work(Group& all, const std::string& failure, int failing_rank, const StandstillLimits& limits) {
  constexpr int kSteps = 50;
  for (int i = 0; i < kSteps || failure == "wait"; ++i) {
    if (i == kSteps / 2) {
      fmt::print("rank {} pid {} works\n", all.rank(), ::getpid());
      std::fflush(stdout);
      if (all.rank() == failing_rank) fail_as(failure, limits);
    }
    step(all);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int probe(int argc, char** argv) {
  const World world = connect(read_launch(this_environment()));
  const auto operations = std::make_shared<OperationCount>(0);
  const std::shared_ptr<Group> group = counted(world.all, operations);
  Group& all = *group;
  WatchdogOptions options{.timeout = seconds_in(argv[1])};
  options.progress = [operations] { return Progress{progress_count(), *operations}; };
  options.warn = [](const std::string& text) { fmt::print(stderr, "warning: {}\n", text); };
  if (argc > 4) options.standstill = {.warn = seconds_in(argv[4]) / 2, .end = seconds_in(argv[4])};
  Watchdog watchdog(all, options,
                    [rank = all.rank()](const RankFailure& failure) { end_after(rank, failure); });
  try {
    work(all, argv[2], std::stoi(argv[3]), options.standstill);
    all.barrier();
    return 0;
  } catch (const std::exception& error) {
    watchdog.fail(error.what(), 2);
  }
  std::_Exit(99);
}

}  // namespace
}  // namespace dpo::comm

int main(int argc, char** argv) { return argc >= 4 ? dpo::comm::probe(argc, argv) : 1; }
