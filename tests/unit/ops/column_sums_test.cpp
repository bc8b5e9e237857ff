#include "ops/column_sums.h"

#include <limits>

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

// Compares with float64. The tolerance covers the rounding of float32 sums and of the result. Sums of random
// numbers may cancel, so the bound is relative to the sum of magnitudes.
void expect_sums(const at::Tensor& matrix, at::ScalarType dtype) {
  const at::Tensor found = column_sums(matrix, dtype);
  EXPECT_EQ(found.scalar_type(), dtype);
  EXPECT_EQ(found.device(), matrix.device());
  ASSERT_EQ(found.sizes(), at::IntArrayRef({matrix.size(1)}));
  const at::Tensor wide = matrix.to(at::kCPU, at::kDouble), expected = wide.sum(0);
  const double rounding = dtype == at::kFloat ? 1e-6 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  const at::Tensor bound = 1e-6 * wide.abs().sum(0) + rounding * expected.abs() + 1e-6;
  const at::Tensor error = (found.to(at::kCPU, at::kDouble) - expected).abs();
  EXPECT_TRUE(error.le(bound).all().item<bool>())
      << matrix.sizes() << ", strides " << matrix.strides() << ", " << matrix.scalar_type() << " to " << dtype
      << ": " << error.max().item<double>();
  EXPECT_TRUE(column_sums(matrix, dtype).equal(found)) << "other bits the second time";
}

void check_sums(at::Device device) {
  at::manual_seed(0);
  // Odd sizes, few and many columns, and more rows than all warps take at once.
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                      {1, 1024},
                                      {3, 7},
                                      {63, 8},
                                      {65, 264},
                                      {700, 1152},
                                      {5000, 24},
                                      {9001, 1024},
                                      {130, 10001},
                                      {0, 16}})
    for (const at::ScalarType type : kTypes) {
      const at::Tensor matrix = at::randn({rows, columns}, at::TensorOptions(device).dtype(type));
      expect_sums(matrix, type);
      expect_sums(matrix, at::kFloat);
    }
}

// Checks rows with gaps that begin where no pack may, and columns with gaps.
void check_views(at::Device device) {
  at::manual_seed(0);
  for (const at::ScalarType type : kTypes) {
    const at::Tensor matrix = at::randn({77, 96}, at::TensorOptions(device).dtype(type));
    expect_sums(matrix.narrow(1, 16, 64), type);
    expect_sums(matrix.narrow(1, 3, 64), type);
    expect_sums(matrix.narrow(1, 0, 77).narrow(0, 5, 50), type);
    expect_sums(matrix.t(), type);
    expect_sums(matrix.narrow(0, 0, 1).expand({300, 96}), type);
  }
}

// Intermediate sums do not fit into 16 bits: 300 ones in bfloat16 would give 256.
void check_precision(at::Device device) {
  const at::Tensor ones = at::ones({5000, 40}, at::TensorOptions(device).dtype(at::kBFloat16));
  EXPECT_TRUE(column_sums(ones, at::kFloat).eq(5000).all().item<bool>());
  const at::Tensor wrong = ones.clone();
  wrong[4999][39].fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(column_sums(wrong).isnan().sum().item<std::int64_t>(), 1);
}

TEST(ColumnSums, AreThoseOfFloat64) {
  check_sums(at::kCPU);
  check_views(at::kCPU);
  check_precision(at::kCPU);
}

TEST(ColumnSums, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_sums(at::kCUDA);
  check_views(at::kCUDA);
  check_precision(at::kCUDA);
}

}  // namespace
}  // namespace dpo::ops
