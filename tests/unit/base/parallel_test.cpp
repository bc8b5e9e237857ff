#include "base/parallel.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(ForEachParallel, CallsEachIndexOnce) {
  for (const std::size_t threads : {0, 1, 3})
    for (const std::size_t count : {0, 1, 16, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      for_each_parallel(
          count, [&](std::size_t i) { ++calls[i]; }, threads, 7);
      for (const std::atomic<int>& called : calls) EXPECT_EQ(called, 1);
    }
}

TEST(ForEachParallel, ThrowsTheErrorOfTheLowestIndex) {
  const auto work = [](std::size_t i) {
    if (i % 100 == 99) throw std::runtime_error(std::to_string(i));
  };
  for (int repeat = 0; repeat < 100; ++repeat) {
    try {
      for_each_parallel(10'000, work, 4, 3);
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "99");
    }
  }
}

}  // namespace
}  // namespace dpo
