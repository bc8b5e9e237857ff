// A run whose ranks exchange numbers and watch each other, until one of them fails: watch_probe SECONDS
// FAILURE RANK. FAILURE: none, throw, memory, wait (for somebody else to end it).
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

#include "comm/connect.h"
#include "comm/watch.h"

namespace dpo::comm {
namespace {

[[noreturn]] void end_for(int rank, const Loss& loss) {
  fmt::print(stderr, "rank {} ends: {}\n", rank, describe(loss));
  std::fflush(stderr);
  std::_Exit(loss.status);
}

void misbehave(const std::string& failure) {
  if (failure == "throw") throw std::runtime_error("the data is not to my liking");
  if (failure == "memory") throw std::bad_alloc();
}

// A step of a run: all ranks meet in it.
void step(Group& all) {
  const at::Tensor one = at::ones({1000});
  all.all_reduce(one).wait();
  if (one[0].item<float>() != static_cast<float>(all.size())) throw std::logic_error("a wrong sum");
}

void work(Group& all, const std::string& failure, int culprit) {
  constexpr int kSteps = 50;
  for (int i = 0; i < kSteps || failure == "wait"; ++i) {
    if (i == kSteps / 2) {
      fmt::print("rank {} pid {} works\n", all.rank(), ::getpid());
      std::fflush(stdout);
      if (all.rank() == culprit) misbehave(failure);
    }
    step(all);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int probe(char** argv) {
  const World world = connect(read_launch(this_environment()));
  Group& all = *world.all;
  Watch watch(all,
              {std::chrono::milliseconds(static_cast<std::int64_t>(1000 * std::stod(argv[1]))), std::nullopt},
              [rank = all.rank()](const Loss& loss) { end_for(rank, loss); });
  try {
    work(all, argv[2], std::stoi(argv[3]));
    all.barrier();
    return 0;
  } catch (const std::exception& error) {
    watch.fail(error.what(), 2);
  }
  std::_Exit(99);
}

}  // namespace
}  // namespace dpo::comm

int main(int argc, char** argv) { return argc == 4 ? dpo::comm::probe(argv) : 1; }
