#include "ops/split_floats.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "ops/state_math.h"

namespace dpo::ops {
namespace {

struct Parts {
  at::Tensor rounded;
  FloatRest rest;
};

Parts parts_of(const at::Tensor& exact) {
  Parts parts{at::empty(exact.sizes(), exact.options().dtype(at::kBFloat16)),
              make_rest(exact.numel(), exact.device())};
  split(exact, parts.rounded, parts.rest);
  return parts;
}

// Every upper half with lower halves at and around the middle, where the neighbour above or below is even.
at::Tensor numbers_near_ties() {
  std::vector<float> numbers;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto number = std::bit_cast<float>(upper << 16 | low);
      if (!std::isnan(number)) numbers.push_back(number);
    }
  numbers.resize(numbers.size() / 8 * 8);
  return at::tensor(numbers);
}

bool have_same_bits(const at::Tensor& one, const at::Tensor& other) {
  return at::equal(one.view(at::kInt), other.view(at::kInt));
}

TEST(SplitFloats, GiveBackEveryBit) {
  for (const at::Tensor& exact : {numbers_near_ties(), at::randn({1 << 20}) * 1e-3}) {
    const Parts parts = parts_of(exact);
    EXPECT_TRUE(at::equal(parts.rounded, exact.to(at::kBFloat16)));
    EXPECT_TRUE(have_same_bits(joined(parts.rounded, parts.rest), exact));
  }
}

TEST(SplitFloats, NanStaysNan) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor exact =
      at::tensor({nan, -nan, 1.F, std::bit_cast<float>(0x7F810001U), 0.F, 0.F, 0.F, 0.F});
  const Parts parts = parts_of(exact);
  EXPECT_TRUE(at::equal(joined(parts.rounded, parts.rest).isnan(), exact.isnan()));
}

TEST(SplitFloats, OfAPart) {
  const at::Tensor exact = at::randn({64});
  const Parts parts = parts_of(exact);
  EXPECT_TRUE(have_same_bits(joined(parts.rounded.narrow(0, 24, 32), part_of(parts.rest, 24, 32)),
                             exact.narrow(0, 24, 32).clone()));
}

// The arithmetic of the kernels (ops/state_math.h).
TEST(SplitFloats, AreThoseOfKernels) {
  const at::Tensor exact = numbers_near_ties();
  const Parts parts = parts_of(exact);
  const at::Tensor bits = exact.view(at::kInt), rounded = parts.rounded.view(at::kShort);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < exact.numel(); ++i) {
    const auto number = static_cast<std::uint32_t>(bits.const_data_ptr<std::int32_t>()[i]);
    const auto upper = static_cast<std::uint16_t>(rounded.const_data_ptr<std::int16_t>()[i]);
    const std::uint32_t carry = carry_of(number, upper);
    const std::uint32_t stored = parts.rest.carries.const_data_ptr<std::uint8_t>()[i / 8] >> (i % 8) & 1U;
    const auto low = static_cast<std::uint16_t>(parts.rest.low.const_data_ptr<std::int16_t>()[i]);
    if (carry != stored || joined_bits(upper, low, carry) != number) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace dpo::ops
