#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/cuda/products.h"
#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

std::int64_t hash_on_gpu(const at::Tensor& tensor) {
  const at::Tensor hash = at::zeros({1}, tensor.options().dtype(at::kLong));
  cuda::hash_of(tensor.const_data_ptr(), static_cast<std::int64_t>(tensor.nbytes()),
                static_cast<std::uint64_t*>(hash.mutable_data_ptr()), nullptr);
  return hash.item<std::int64_t>();
}

TEST(Hash, OnCudaDependsOnEveryBitAndItsPlace) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  at::manual_seed(0);
  at::Tensor x = at::randint(30000, {999, 1001, 4}, at::TensorOptions(at::kCUDA).dtype(at::kShort));
  const std::int64_t hash = hash_on_gpu(x);
  EXPECT_EQ(hash_on_gpu(x.clone()), hash);
  at::Tensor last = x[998][1000][3];
  last.bitwise_xor_(1);
  EXPECT_NE(hash_on_gpu(x), hash);
  last.bitwise_xor_(1);
  EXPECT_EQ(hash_on_gpu(x), hash);
  EXPECT_NE(hash_on_gpu(x.flip({0}).contiguous()), hash);
  EXPECT_NE(hash_on_gpu(x.flip({2}).contiguous()), hash);
}

}  // namespace
}  // namespace dpo::ops
