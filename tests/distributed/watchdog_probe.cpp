// A run whose ranks do collective operations under a watchdog, until one of them fails:
// watchdog_probe TIMEOUT FAILURE RANK. FAILURE: none, throw, memory, wait (until it is killed or stopped).
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

#include "comm/watchdog.h"
#include "comm/world.h"

namespace dpo::comm {
namespace {

[[noreturn]] void end_after(int rank, const RankFailure& failure) {
  fmt::print(stderr, "rank {} ends: {}\n", rank, describe(failure));
  std::fflush(stderr);
  std::_Exit(failure.status);
}

void fail_as(const std::string& failure) {
  if (failure == "throw") throw std::runtime_error("the data is bad");
  if (failure == "memory") throw std::bad_alloc();
}

// A step of a run, which needs all ranks.
void step(Group& all) {
  const at::Tensor one = at::ones({1000});
  all.all_reduce(one).wait();
  if (one[0].item<float>() != static_cast<float>(all.size())) throw std::logic_error("a wrong sum");
}

void work(Group& all, const std::string& failure, int failing_rank) {
  constexpr int kSteps = 50;
  for (int i = 0; i < kSteps || failure == "wait"; ++i) {
    if (i == kSteps / 2) {
      fmt::print("rank {} pid {} works\n", all.rank(), ::getpid());
      std::fflush(stdout);
      if (all.rank() == failing_rank) fail_as(failure);
    }
    step(all);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int probe(char** argv) {
  const World world = connect(read_launch(this_environment()));
  Group& all = *world.all;
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(1000 * std::stod(argv[1])));
  Watchdog watchdog(all, {timeout, std::nullopt},
                    [rank = all.rank()](const RankFailure& failure) { end_after(rank, failure); });
  try {
    work(all, argv[2], std::stoi(argv[3]));
    all.barrier();
    return 0;
  } catch (const std::exception& error) {
    watchdog.fail(error.what(), 2);
  }
  std::_Exit(99);
}

}  // namespace
}  // namespace dpo::comm

int main(int argc, char** argv) { return argc == 4 ? dpo::comm::probe(argv) : 1; }
