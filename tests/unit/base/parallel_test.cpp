#include "base/parallel.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dpo {
namespace {

TEST(Parallel, CallsEveryIndexOnce) {
  for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 1000u}) {
    std::vector<std::atomic<int>> calls(count);
    for_each_parallel(
        count, [&](std::size_t i) { ++calls[i]; }, 4);
    for (const auto& called : calls) EXPECT_EQ(called, 1);
  }
}

TEST(Parallel, ThrowsTheErrorOfTheLowestIndex) {
  for (int round = 0; round < 50; ++round) try {
      for_each_parallel(
          1000,
          [](std::size_t i) {
            if (i >= 40) throw std::runtime_error(std::to_string(i));
          },
          4, 1);
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "40");
    }
}

}  // namespace
}  // namespace dpo
