#include "ops/gelu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace dpo::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }

// These return a quarter of the distance between 16-bit numbers near x.
double bfloat16_bound(double x) { return std::abs(x) * 0x1p-10; }
double float16_bound(double x) { return std::abs(x) * 0x1p-13; }

template <class Action>
void for_numbers(float from, float to, const Action& action) {
  for (double x = from; x <= to; x += 0x1p-13) action(static_cast<float>(x));
}

TEST(FastGelu, IsTheNormalDistributionsWithin2e7) {
  for_numbers(-40, 40, [](float x) { ASSERT_NEAR(fast_normal_cdf(x), normal_cdf(x), 2e-7) << x; });
}

// The error must be much smaller than the rounding that follows, even where results are small.
TEST(FastGelu, HasTheValuesOfGelu) {
  for_numbers(-40, 40, [](float x) {
    const double exact = x * normal_cdf(x);
    ASSERT_NEAR(fast_gelu(x), exact, std::max(1e-6, float16_bound(exact))) << x;
    if (x > -6) {
      ASSERT_NEAR(fast_gelu(x), exact, float16_bound(exact)) << x;
    }
  });
}

// The derivative is 0 at -0.75, where no relative bound holds.
TEST(FastGelu, HasTheDerivativeOfGelu) {
  for_numbers(-40, 40, [](float x) {
    const double exact = normal_cdf(x) + x * normal_density(x);
    ASSERT_NEAR(fast_gelu_derivative(x), exact, 1e-6) << x;
    if (x > -6 && x < -1) {
      ASSERT_NEAR(fast_gelu_derivative(x), exact, bfloat16_bound(exact)) << x;
    }
  });
}

TEST(FastGelu, OfWhatIsNotFiniteIsAsInLibTorch) {
  EXPECT_EQ(fast_gelu(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(fast_gelu(-kInfinity)));
  EXPECT_TRUE(std::isnan(fast_gelu(std::nanf(""))));
  EXPECT_TRUE(std::isnan(fast_gelu_derivative(std::nanf(""))));
  EXPECT_EQ(fast_gelu(3e38F), 3e38F);
  EXPECT_EQ(fast_gelu(-3e38F), 0);
}

}  // namespace
}  // namespace dpo::ops
