#include "data/loader.h"

#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

namespace dpo::data {
namespace {

using namespace std::chrono_literals;

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

TEST(Loader, GivesEverythingInOrderThenNothing) {
  int made = 0;
  Loader<int> loader(
      [&]() -> std::optional<int> { return made < 100 ? std::optional(made++) : std::nullopt; }, 3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(loader.next(), i);
  EXPECT_EQ(loader.next(), std::nullopt);
  EXPECT_EQ(loader.next(), std::nullopt);
}

TEST(Loader, WithASlowConsumerKeepsOnlySoManyReady) {
  std::atomic<int> made = 0;
  Loader<int> loader([&]() -> std::optional<int> { return made++; }, 4);
  // The loader fills up and one more item waits. `make` is then not called until an item is taken.
  for (int taken = 0; taken < 500; ++taken) {
    wait_until([&] { return made >= taken + 5; });
    std::this_thread::yield();
    EXPECT_EQ(made, taken + 5);
    EXPECT_EQ(loader.next(), taken);
  }
}

TEST(Loader, WithASlowSourceWaitsForIt) {
  int made = 0;
  Loader<int> loader(
      [&]() -> std::optional<int> {
        std::this_thread::sleep_for(2ms);
        return made < 10 ? std::optional(made++) : std::nullopt;
      },
      4);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(loader.next(), i);
  EXPECT_EQ(loader.next(), std::nullopt);
}

TEST(Loader, ThrowsWhatTheSourceThrewAfterWhatWasReady) {
  int made = 0;
  Loader<int> loader(
      [&]() -> std::optional<int> {
        if (made == 2) throw std::runtime_error("bad row");
        return made++;
      },
      4);
  EXPECT_EQ(loader.next(), 0);
  EXPECT_EQ(loader.next(), 1);
  EXPECT_THROW(loader.next(), std::runtime_error);
}

TEST(Loader, CanBeLeftInTheMiddle) {
  std::atomic<int> made = 0;
  {
    Loader<int> loader([&]() -> std::optional<int> { return made++; }, 2);
    wait_until([&] { return made >= 3; });
  }
  EXPECT_GE(made, 3);
}

}  // namespace
}  // namespace dpo::data
