#include "ops/upload.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace dpo::ops {
namespace {

TEST(Upload, EachArrayReachesItsTensor) {
  const std::vector<std::int32_t> a = {5, -7}, b = {}, c = {1, 2, 3}, d = {4};
  at::Tensor long_a, long_b, int_c, int_d;
  upload({.longs = {{a, &long_a}, {b, &long_b}}, .ints = {{c, &int_c}, {d, &int_d}}}, at::kCPU);
  EXPECT_TRUE(long_a.equal(at::tensor({5, -7}, at::kLong)));
  EXPECT_TRUE(long_b.equal(at::tensor(at::ArrayRef<std::int32_t>{}, at::kLong)));
  EXPECT_TRUE(int_c.equal(at::tensor({1, 2, 3}, at::kInt)));
  EXPECT_TRUE(int_d.equal(at::tensor({4}, at::kInt)));
}

}  // namespace
}  // namespace dpo::ops
