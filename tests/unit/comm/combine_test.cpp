#include "comm/combine.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <c10/util/BFloat16.h>

namespace dpo::comm {
namespace {

TEST(Combine, AddsInTheOrderOfTheParts) {
  const std::vector<float> a = {1e8f, 1}, b = {1, 2}, c = {-1e8f, 3};
  std::vector<float> into(2);
  combine(c10::kFloat, Reduction::sum, into.data(), std::array<const void*, 3>{a.data(), b.data(), c.data()},
          2);
  EXPECT_EQ(into, (std::vector<float>{0, 6}));  // 1e8 + 1 is 1e8 in float32
  combine(c10::kFloat, Reduction::sum, into.data(), std::array<const void*, 3>{a.data(), c.data(), b.data()},
          2);
  EXPECT_EQ(into, (std::vector<float>{1, 6}));
}

TEST(Combine, SixteenBitsAreRoundedOnce) {
  // With rounding after every step, 256 + 1 + 1 would stay 256.
  const c10::BFloat16 big(256.f), one(1.f);
  c10::BFloat16 into;
  combine(c10::kBFloat16, Reduction::sum, &into, std::array<const void*, 3>{&big, &one, &one}, 1);
  EXPECT_EQ(static_cast<float>(into), 258.f);
}

TEST(Combine, IntoOneOfTheParts) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2047}, std::size_t{2048}, std::size_t{5001}}) {
    std::vector<std::int64_t> a(count, 3), b(count, 4);
    combine(c10::kLong, Reduction::sum, b.data(), std::array<const void*, 2>{a.data(), b.data()}, count);
    EXPECT_EQ(b, std::vector<std::int64_t>(count, 7)) << count;
  }
}

TEST(Combine, MaximumAndNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> a = {1, nan, -3}, b = {2, 0, nan};
  std::vector<double> into(3);
  combine(c10::kDouble, Reduction::max, into.data(), std::array<const void*, 2>{a.data(), b.data()}, 3);
  EXPECT_EQ(into[0], 2);
  EXPECT_TRUE(std::isnan(into[1]));
  EXPECT_TRUE(std::isnan(into[2]));
}

TEST(Combine, RefusesTypesThatCannotBeSummed) {
  bool a = true;
  EXPECT_THROW(combine(c10::kBool, Reduction::sum, &a, std::array<const void*, 1>{&a}, 1),
               std::invalid_argument);
}

}  // namespace
}  // namespace dpo::comm
