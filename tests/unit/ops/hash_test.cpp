#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/cuda/matmuls.h"
#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

cuda::Digest digest_of(const at::Tensor& tensor) {
  const at::Tensor result = at::zeros({2}, tensor.options().dtype(at::kLong));
  cuda::digest(tensor.const_data_ptr(), static_cast<std::int64_t>(tensor.nbytes()) / 8,
               static_cast<cuda::Digest*>(result.mutable_data_ptr()), nullptr);
  return {static_cast<std::uint64_t>(result[0].item<std::int64_t>()),
          static_cast<std::uint64_t>(result[1].item<std::int64_t>())};
}

std::uint64_t hash_on_gpu(const at::Tensor& tensor) { return digest_of(tensor).hash; }

TEST(Hash, OnCudaDependsOnEveryBitAndItsPlace) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  at::manual_seed(0);
  at::Tensor x = at::randint(30000, {999, 1001, 4}, at::TensorOptions(at::kCUDA).dtype(at::kShort));
  const std::uint64_t hash = hash_on_gpu(x);
  EXPECT_EQ(hash_on_gpu(x.clone()), hash);
  at::Tensor last = x[998][1000][3];
  last.bitwise_xor_(1);
  EXPECT_NE(hash_on_gpu(x), hash);
  last.bitwise_xor_(1);
  EXPECT_EQ(hash_on_gpu(x), hash);
  EXPECT_NE(hash_on_gpu(x.flip({0}).contiguous()), hash);
  EXPECT_NE(hash_on_gpu(x.flip({2}).contiguous()), hash);
}

TEST(Hash, OnCudaCountsWordsOtherThan0) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  at::Tensor x = at::zeros({5000, 4}, at::TensorOptions(at::kCUDA).dtype(at::kShort));
  EXPECT_EQ(digest_of(x).nonzero_words, 0U);
  x.narrow(0, 100, 77).select(1, 2).fill_(1);
  EXPECT_EQ(digest_of(x).nonzero_words, 77U);
}

}  // namespace
}  // namespace dpo::ops
