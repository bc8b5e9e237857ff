#include "ops/matmul.h"

#include <vector>

#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

struct ProductSizes {
  std::int64_t rows, columns, inner;
};

const std::vector<ProductSizes> kProductSizes = {{33, 64, 40}, {301, 256, 512}, {9000, 1024, 512}};

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, const at::TensorOptions& options) {
  return at::randn({rows, columns}, options.dtype(at::kFloat)).to(options.dtype());
}

// Compares with float64. The tolerance covers the rounding of the result, and float32 sums.
void expect_product(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  const double rounding = found.scalar_type() == at::kFloat  ? 0
                          : found.scalar_type() == at::kHalf ? 0x1p-11
                                                             : 0x1p-8;
  const at::Tensor error = (found.to(at::kDouble) - expected).abs();
  EXPECT_TRUE(error.le(rounding * expected.abs() + 2e-4).all().item<bool>())
      << found.sizes() << " of " << found.scalar_type() << ": " << error.max().item<double>();
}

void check_linear(const ProductSizes& sizes, const at::TensorOptions& options) {
  const at::Tensor x = random_matrix(sizes.rows, sizes.inner, options),
                   weight = random_matrix(sizes.columns, sizes.inner, options),
                   bias = random_matrix(1, sizes.columns, options)[0];
  const at::Tensor expected = x.to(at::kDouble).mm(weight.to(at::kDouble).t());
  expect_product(matmul(x, weight, {}, false), expected);
  expect_product(matmul(x, weight, bias, false), expected + bias.to(at::kDouble));
  expect_product(matmul(x, weight.t().contiguous(), {}, true), expected);
  const at::Tensor first = matmul(x, weight, bias, false);
  EXPECT_TRUE(matmul(x, weight, bias, false).equal(first)) << "other bits the second time";
}

// Adds a^T b to a float32 sum on a GPU, as for the gradient of a weight.
void check_into(const ProductSizes& sizes, const at::TensorOptions& options) {
  const at::Tensor a = random_matrix(sizes.inner, sizes.rows, options),
                   b = random_matrix(sizes.inner, sizes.columns, options);
  const at::Tensor expected = a.to(at::kDouble).t().mm(b.to(at::kDouble));
  const bool is_wide = options.device().is_cuda();
  const at::Tensor start =
      random_matrix(sizes.rows, sizes.columns, is_wide ? options.dtype(at::kFloat) : options);
  at::Tensor out = start.clone();
  add_matmul_to(out, a.t(), b);
  expect_product(out, start.to(at::kDouble) + expected);
  matmul_into(out, a.t(), b);
  expect_product(out, expected);
}

void check_products(at::Device device) {
  at::manual_seed(0);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const ProductSizes& sizes : kProductSizes) {
      if (device.is_cpu() && sizes.rows > 1000) continue;
      check_linear(sizes, at::TensorOptions(device).dtype(type));
      check_into(sizes, at::TensorOptions(device).dtype(type));
    }
}

TEST(Matmul, IsNearFloat64) { check_products(at::kCPU); }

TEST(Matmul, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_products(at::kCUDA);
}

// Uses parts of wider matrices, and rows that begin where no load of 16 bytes may.
TEST(Matmul, OnCudaOfViews) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  at::manual_seed(0);
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const at::Tensor x = random_matrix(4096, 1024, options), weight = random_matrix(2048, 512, options);
  for (const std::int64_t first : {0, 8, 3, 512}) {
    const at::Tensor part = x.narrow(1, first, 512);
    expect_product(matmul(part, weight, {}, false), part.to(at::kDouble).mm(weight.to(at::kDouble).t()));
  }
}

}  // namespace
}  // namespace dpo::ops
