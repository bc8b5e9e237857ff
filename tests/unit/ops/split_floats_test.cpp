#include "ops/split_floats.h"

#include <bit>
#include <limits>

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "unit/ops/near_ties.h"

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

// Compares the CPU's loops, which have the arithmetic of our kernels, with LibTorch's operators.
TEST(SplitFloats, ByOperatorsAreTheSame) {
  const at::Tensor exact = numbers_near_ties();
  const Parts parts = parts_of(exact);
  Parts others{at::zeros_like(parts.rounded), make_rest(exact.numel(), at::kCPU)};
  operators::split(exact, others.rounded, others.rest);
  EXPECT_TRUE(at::equal(others.rounded, parts.rounded));
  EXPECT_TRUE(at::equal(others.rest.low, parts.rest.low));
  EXPECT_TRUE(at::equal(others.rest.carries, parts.rest.carries));
  EXPECT_TRUE(have_same_bits(operators::joined(others.rounded, others.rest), exact));
}

TEST(SplitFloats, OnAGpuAreTheSame) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  const at::Tensor exact = numbers_near_ties();
  const Parts here = parts_of(exact), there = parts_of(exact.cuda());
  EXPECT_TRUE(at::equal(there.rounded.cpu(), here.rounded));
  EXPECT_TRUE(at::equal(there.rest.carries.cpu(), here.rest.carries));
  at::Tensor back = at::zeros_like(exact);
  join(back, there.rounded, there.rest);
  EXPECT_TRUE(have_same_bits(back, exact));
}

}  // namespace
}  // namespace dpo::ops
