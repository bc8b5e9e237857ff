#include "ops/matmul.h"

#include <functional>
#include <vector>

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/fused_matmul.h"
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

constexpr int kManyCalls = 1100;  // more than before algorithms are tried

struct ProductOperands {
  at::Tensor a, b, bias;
  at::ScalarType out_type = at::kBFloat16;
};

// Transposes the second matrix, as weights of nn.Linear are in the forward pass.
ProductOperands random_operands(const ProductSizes& sizes) {
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  return {random_matrix(sizes.rows, sizes.inner, options),
          random_matrix(sizes.columns, sizes.inner, options).t(),
          {}};
}

void usual_product(at::Tensor& out, const ProductOperands& in) {
  if (in.bias.defined())
    at::addmm_out(out, in.bias, in.a, in.b);
  else
    at::mm_out(out, in.a, in.b, out.scalar_type());
}

// Takes much longer than a matmul, so that any algorithm beats LibTorch's matmul, and changes nothing.
void take_time(at::Tensor& out) {
  for (int i = 0; i < 20; ++i) out.mul_(2).mul_(0.5);
}

// Returns true if one of cuBLASLt's algorithms is used after many calls, when LibTorch's matmul is followed
// by `more`. All results must have the same bits.
bool is_chosen(const ProductOperands& in, const std::function<void(at::Tensor&)>& more = take_time) {
  at::Tensor out = at::zeros({in.a.size(0), in.b.size(1)}, in.a.options().dtype(in.out_type));
  const auto usual = [&] {
    usual_product(out, in);
    more(out);
  };
  usual();
  const at::Tensor first = out.clone();
  bool is_chosen = false;
  for (int i = 0; i < kManyCalls; ++i) {
    out.zero_();
    is_chosen = fused::matmul(out, in.a, in.b, in.bias, usual);
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
    if (!fused::supports_matmul(matrix, matrix)) GTEST_SKIP() << "built without cuBLASLt";
  }
};

TEST_F(ProductAlgorithms, AreChosenByTimeAmongThoseWithTheSameBits) {
  ProductOperands in = random_operands({4096, 2048, 512});
  EXPECT_TRUE(is_chosen(in));
  in.bias = random_matrix(1, 2048, in.a.options())[0];
  EXPECT_TRUE(is_chosen(in));
  in.a = random_matrix(4097, 512, in.a.options());
  EXPECT_TRUE(is_chosen(in));
}

// Covers the layouts for gradients of inputs and of weights, and parts of wider matrices.
TEST_F(ProductAlgorithms, AreChosenForAnyLayout) {
  ProductOperands in = random_operands({4096, 1536, 1024});
  in.b = in.b.contiguous();
  EXPECT_TRUE(is_chosen(in));
  in.a = in.a.t().contiguous().t();
  in.out_type = at::kFloat;
  EXPECT_TRUE(is_chosen(in));
  const at::Tensor wide = random_matrix(4096, 1536, in.a.options());
  in = random_operands({4096, 1536, 1024});
  for (const std::int64_t first : {512, 64}) {
    in.a = wide.narrow(1, first, 1024);
    EXPECT_TRUE(is_chosen(in));
  }
}

TEST_F(ProductAlgorithms, WithOtherBitsAreNotChosen) {
  const auto change = [](at::Tensor& out) {
    take_time(out);
    out.select(0, 7).select(0, 3).add_(1);
  };
  EXPECT_FALSE(is_chosen(random_operands({4096, 1024, 768}), change));
}

// Every algorithm gives the same bits for zeros.
TEST_F(ProductAlgorithms, AreNotChosenByZerosOrFewResults) {
  ProductOperands in = random_operands({4096, 1024, 1280});
  in.a.narrow(0, 256, 4096 - 256).zero_();
  EXPECT_FALSE(is_chosen(in));
  EXPECT_FALSE(is_chosen(random_operands({512, 1024, 1280})));
}

// LibTorch rejects or copies these operands.
TEST_F(ProductAlgorithms, LeaveUnusualOperandsToLibTorch) {
  ProductOperands in = random_operands({2048, 2048, 512});
  EXPECT_TRUE(is_chosen(in));
  at::Tensor out = at::zeros({2048, 2048}, in.a.options());
  const auto unexpected = [] { FAIL() << "a trial"; };
  const auto takes = [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
    return fused::matmul(out, a, b, bias, unexpected);
  };
  EXPECT_TRUE(takes(in.a, in.b, {}));
  EXPECT_FALSE(takes(in.a.select(0, 0).expand({2048, 512}), in.b, {}));
  EXPECT_FALSE(takes(in.a, in.b.narrow(0, 0, 256), {}));
  EXPECT_FALSE(takes(in.a, in.b.narrow(1, 0, 1024), {}));
  EXPECT_FALSE(takes(in.a, in.b, at::zeros({1}, in.a.options())));
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
