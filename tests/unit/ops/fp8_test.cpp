#include "ops/fp8.h"

#include <cmath>
#include <limits>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "hardware/gpus.h"
#include "ops/linear.h"
#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

bool has_fp8_gpu() { return has_gpu() && hardware::find_gpus().found.at(0).at_least(8, 9); }

class Fp8 : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == at::kCUDA && !has_fp8_gpu()) GTEST_SKIP() << "no GPU with 8-bit floats";
  }
  at::TensorOptions options() const { return at::TensorOptions().device(GetParam()).dtype(at::kBFloat16); }

  // Returns rows of very different magnitudes, like those of activations and gradients.
  at::Tensor rows(std::int64_t count, std::int64_t columns) const {
    return at::randn({count, columns}, options()) * at::randn({count, 1}, options()).mul_(4).exp_();
  }
};

INSTANTIATE_TEST_SUITE_P(On, Fp8, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& of) { return c10::DeviceTypeName(of.param); });

at::Tensor bytes_of(const Fp8Matrix& matrix) { return matrix.codes.view(at::kByte).cpu(); }

// Compares with LibTorch's conversion on the CPU. The sizes are not multiples of a kernel's block.
TEST_P(Fp8, CodesAreThoseOfLibTorch) {
  for (const auto& [count, columns] : {std::pair{1, 16}, {16, 16}, {48, 80}, {144, 2064}, {272, 4096}}) {
    const at::Tensor matrix = rows(count, columns), host = matrix.cpu().to(at::kFloat);
    for (const bool of_columns : {false, true}) {
      const at::Tensor expected_rows = of_columns ? host.t() : host;
      const at::Tensor scales = expected_rows.abs().amax(1, true) * (1 / 448.0F);
      const at::Tensor expected =
          (expected_rows * (1 / scales)).to(at::kFloat8_e4m3fn).contiguous().view(at::kByte);
      const Fp8Matrix found = of_columns ? fp8_columns(matrix) : fp8_rows(matrix);
      EXPECT_TRUE(found.codes.is_contiguous());
      EXPECT_TRUE(at::equal(found.scales.cpu(), scales)) << count << " x " << columns;
      EXPECT_TRUE(at::equal(bytes_of(found), expected)) << count << " x " << columns << " " << of_columns;
    }
  }
}

TEST_P(Fp8, TheLargestOfARowIsExact) {
  const at::Tensor matrix = rows(33, 96);
  const at::Tensor largest = bytes_of(fp8_rows(matrix)).bitwise_and(0x7F).amax(1);
  EXPECT_TRUE(largest.eq(0x7E).all().item<bool>());  // 448
}

TEST_P(Fp8, ZerosStayZerosAndWhatIsNotFiniteIsSeen) {
  at::Tensor matrix = at::zeros({4, 32}, options());
  matrix[1][3] = 1.0;
  matrix[2][5] = std::numeric_limits<float>::infinity();
  matrix[3][7] = std::numeric_limits<float>::quiet_NaN();
  const Fp8Matrix found = fp8_rows(matrix);
  const at::Tensor product =
      fp8_matmul(found, fp8_rows(at::randn({16, 32}, options())), {}, at::kBFloat16, /*fast=*/false);
  EXPECT_TRUE(at::equal(product[0], at::zeros_like(product[0])));
  EXPECT_TRUE(product[1].isfinite().all().item<bool>());
  EXPECT_TRUE(product.slice(0, 2).isnan().all().item<bool>());
}

// Each number of a matmul is off by at most 2^-4 of itself (half a step of 3 bits of mantissa), or by half
// the least e4m3, 2^-10, times its row's scale. The result is rounded to bfloat16. `fast` sums with about 14
// bits.
void expect_product(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b) {
  const auto error_of = [](const at::Tensor& rows) {
    const at::Tensor scales = rows.abs().amax(1, true) / 448;
    return at::maximum(rows.abs() / 16, scales * std::ldexp(1.0, -10));
  };
  const at::Tensor x = a.to(at::kDouble), w = b.to(at::kDouble);
  const at::Tensor exact = x.mm(w.t()), all = x.abs().mm(w.abs().t());
  const at::Tensor of_x = error_of(x), of_w = error_of(w);
  const at::Tensor bound = of_x.mm(w.abs().t()) + x.abs().mm(of_w.t()) + of_x.mm(of_w.t()) + all / 256 +
                           all * std::ldexp(1.0, -10);
  EXPECT_TRUE((y.to(at::kDouble) - exact).abs().le(bound).all().item<bool>());
  // The bound holds for the worst signs. Errors of many summands mostly cancel.
  EXPECT_LT(((y.to(at::kDouble) - exact) / all).abs().mean().item<double>(), 0.03);
  EXPECT_GT(((y.to(at::kDouble) - exact) / all).abs().mean().item<double>(), 1e-4);  // 8 bits were used
}

struct Fp8Problem {
  at::Tensor x, weight, bias, grad;
  std::shared_ptr<GradientSum> sum = std::make_shared<GradientSum>();

  std::vector<at::Tensor> gradients_of(const at::Tensor& y) const {
    return torch::autograd::grad({y}, {x, weight, bias}, {grad}, /*retain_graph=*/false,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  }
};

TEST_P(Fp8, LinearIsNearFloat64InBothDirections) {
  for (const bool transposed : {false, true}) {
    const at::Tensor weight = transposed ? rows(272, 144) : rows(144, 272);
    const Fp8Problem p{rows(77, 272).requires_grad_(), weight.requires_grad_(),
                       at::randn({144}, options()).requires_grad_(), rows(77, 144)};
    const at::Tensor matrix = (transposed ? weight.t() : weight).detach();
    expect_product(linear(p.x, p.weight, {}, transposed, p.sum, /*fp8=*/true), p.x, matrix);
    const at::Tensor y = linear(p.x, p.weight, p.bias, transposed, p.sum, /*fp8=*/true);
    const std::vector<at::Tensor> found = p.gradients_of(y);
    expect_product(found[0], p.grad, matrix.t());
    // The gradients of weight and bias must equal those of the plain matmul to the bit.
    const std::vector<at::Tensor> plain =
        p.gradients_of(linear(p.x, p.weight, p.bias, transposed, p.sum, /*fp8=*/false));
    EXPECT_FALSE(at::equal(found[0], plain[0]));
    EXPECT_TRUE(at::equal(found[1], plain[1]));
    EXPECT_TRUE(at::equal(found[2], plain[2]));
  }
}

TEST_P(Fp8, TheBiasIsAdded) {
  const at::Tensor x = rows(5, 32), weight = rows(48, 32), bias = at::randn({48}, options()) * 1e4;
  const at::Tensor without = linear(x, weight, {}, false, nullptr, true);
  const at::Tensor with = linear(x, weight, bias, false, nullptr, true);
  EXPECT_LT(relative_error(with, without.to(at::kFloat) + bias.to(at::kFloat)), 1e-2);
}

// The weight's gradient is added to the sum. A frozen weight has no gradient, but still passes that of x on.
TEST_P(Fp8, LinearAddsToTheSumAndKnowsFrozenWeights) {
  const Fp8Problem p{rows(9, 32).requires_grad_(), rows(48, 32).requires_grad_(),
                     at::randn({48}, options()).requires_grad_(), rows(9, 48)};
  *p.sum = {at::zeros({48, 32}, options().dtype(at::kFloat))};
  const std::vector<at::Tensor> found = p.gradients_of(linear(p.x, p.weight, p.bias, false, p.sum, true));
  EXPECT_FALSE(found[1].defined());
  EXPECT_LT(relative_error(p.sum->tensor, p.grad.t().mm(p.x)), 1e-2);
  const at::Tensor frozen = p.weight.detach();
  const at::Tensor y = linear(p.x, frozen, p.bias, false, nullptr, true);
  EXPECT_TRUE(at::equal(torch::autograd::grad({y}, {p.x}, {p.grad})[0], found[0]));
}

// 16 must divide both sizes. Otherwise, the plain matmul is used.
TEST_P(Fp8, OtherSizesAreNotInFp8) {
  for (const auto& [out, in] : {std::pair{40, 32}, {32, 40}}) {
    const at::Tensor x = rows(7, in), weight = rows(out, in);
    EXPECT_FALSE(fits_fp8(weight));
    EXPECT_TRUE(at::equal(linear(x, weight, {}, false, nullptr, true), at::linear(x, weight)));
  }
}

// Each row has its own scale, so codes do not depend on the other rows of the batch.
TEST_P(Fp8, RowsDoNotDependOnEachOther) {
  const at::Tensor x = rows(70, 272), weight = rows(144, 272);
  const Fp8Matrix whole = fp8_rows(x), first = fp8_rows(x.slice(0, 0, 31)), last = fp8_rows(x.slice(0, 31));
  EXPECT_TRUE(at::equal(bytes_of(whole), at::cat({bytes_of(first), bytes_of(last)})));
  EXPECT_TRUE(at::equal(whole.scales, at::cat({first.scales, last.scales})));
  const at::Tensor y = linear(x, weight, {}, false, nullptr, true);
  const at::Tensor parts = at::cat({linear(x.slice(0, 0, 31), weight, {}, false, nullptr, true),
                                    linear(x.slice(0, 31), weight, {}, false, nullptr, true)});
  // Matmuls of other shapes may sum in another order.
  EXPECT_LT(relative_error(parts, y), 1e-3);
}

}  // namespace
}  // namespace dpo::ops
