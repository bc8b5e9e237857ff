#include "ops/product.h"

#include <functional>
#include <vector>

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/fused_products.h"
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

// Against float64: the rounding of the result, and float32 sums.
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
  expect_product(product(x, weight, {}, false), expected);
  expect_product(product(x, weight, bias, false), expected + bias.to(at::kDouble));
  expect_product(product(x, weight.t().contiguous(), {}, true), expected);
  const at::Tensor first = product(x, weight, bias, false);
  EXPECT_TRUE(product(x, weight, bias, false).equal(first)) << "other bits the second time";
}

// Into a sum in float32 on a GPU, as the gradient of a weight: a^T b.
void check_into(const ProductSizes& sizes, const at::TensorOptions& options) {
  const at::Tensor a = random_matrix(sizes.inner, sizes.rows, options),
                   b = random_matrix(sizes.inner, sizes.columns, options);
  const at::Tensor expected = a.to(at::kDouble).t().mm(b.to(at::kDouble));
  const bool is_wide = options.device().is_cuda();
  const at::Tensor start =
      random_matrix(sizes.rows, sizes.columns, is_wide ? options.dtype(at::kFloat) : options);
  at::Tensor out = start.clone();
  add_product_to(out, a.t(), b);
  expect_product(out, start.to(at::kDouble) + expected);
  product_into(out, a.t(), b);
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

TEST(Product, IsNearFloat64) { check_products(at::kCPU); }

TEST(Product, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_products(at::kCUDA);
}

constexpr int kManyCalls = 300;  // more than before algorithms are tried

// Whether one of cuBLASLt's algorithms is used after many calls, if `usual` is LibTorch's product. All
// results must be those of the first.
bool is_chosen(const ProductSizes& sizes, at::ScalarType out_type, bool with_bias,
               const std::function<void(at::Tensor&)>& after_usual) {
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const at::Tensor x = random_matrix(sizes.rows, sizes.inner, options),
                   weight = random_matrix(sizes.columns, sizes.inner, options),
                   bias = with_bias ? random_matrix(1, sizes.columns, options)[0] : at::Tensor();
  at::Tensor out = at::zeros({sizes.rows, sizes.columns}, options.dtype(out_type));
  const auto usual = [&] {
    if (with_bias)
      at::addmm_out(out, bias, x, weight.t());
    else
      at::mm_out(out, x, weight.t(), out_type);
    after_usual(out);
  };
  usual();
  const at::Tensor first = out.clone();
  bool is_chosen = false;
  for (int i = 0; i < kManyCalls; ++i) {
    out.zero_();
    is_chosen = fused::product(out, x, weight.t(), bias, usual);
    if (!is_chosen) usual();
    EXPECT_TRUE(out.equal(first)) << "call " << i;
  }
  return is_chosen;
}

class ProductAlgorithms : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
    at::manual_seed(0);
    const at::Tensor matrix = at::zeros({8, 8}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
    if (!fused::supports_product(matrix, matrix)) GTEST_SKIP() << "built without cuBLASLt";
  }
};

// A product that takes several times as long as usual loses against any algorithm.
TEST_F(ProductAlgorithms, AreChosenByTimeAmongThoseWithTheSameBits) {
  const auto slow = [](at::Tensor& out) {
    for (int i = 0; i < 20; ++i) out.mul_(2).mul_(0.5);
  };
  EXPECT_TRUE(is_chosen({4096, 2048, 512}, at::kBFloat16, false, slow));
  EXPECT_TRUE(is_chosen({4096, 2048, 512}, at::kBFloat16, true, slow));
  EXPECT_TRUE(is_chosen({4097, 1536, 512}, at::kBFloat16, true, slow));
  EXPECT_TRUE(is_chosen({2048, 2560, 1024}, at::kFloat, false, slow));
}

TEST_F(ProductAlgorithms, WithOtherBitsAreNotChosen) {
  const auto other = [](at::Tensor& out) {
    for (int i = 0; i < 20; ++i) out.mul_(2).mul_(0.5);
    out.select(0, 7).select(0, 3).add_(1);
  };
  EXPECT_FALSE(is_chosen({4096, 1024, 768}, at::kBFloat16, false, other));
}

// Parts of wider matrices, and of rows that begin where no load of 16 bytes may.
TEST(Product, OnCudaOfViews) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  at::manual_seed(0);
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const at::Tensor x = random_matrix(4096, 1024, options), weight = random_matrix(2048, 512, options);
  for (const std::int64_t first : {0, 8, 3, 512}) {
    const at::Tensor part = x.narrow(1, first, 512);
    expect_product(product(part, weight, {}, false), part.to(at::kDouble).mm(weight.to(at::kDouble).t()));
  }
}

}  // namespace
}  // namespace dpo::ops
