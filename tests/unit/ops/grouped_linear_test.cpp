#include "ops/grouped_linear.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

// Computes each group in float64.
at::Tensor expected_products(const at::Tensor& x, const at::Tensor& weights, const std::vector<int>& ends) {
  std::vector<at::Tensor> parts;
  int begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    parts.push_back(
        at::linear(x.narrow(0, begin, ends[i] - begin), weights.select(0, static_cast<std::int64_t>(i))));
    begin = ends[i];
  }
  return at::cat(parts);
}

// Checks groups without rows at the beginning, in the middle and at the end, and matrices with and without
// gaps between them, as in a block's flat buffer.
void check_grouped_linear(at::Device device, at::ScalarType dtype, double tolerance) {
  const std::vector<int> ends = {0, 5, 5, 6, 29, 29};
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  for (const std::int64_t gap : {0, 64})
    for (const std::int64_t in : {24, 11}) {
      const std::int64_t out = 16;
      const at::Tensor flat = at::randn({6, out * in + gap}, options);
      const at::Tensor weights = flat.narrow(1, 0, out * in).view({6, out, in}).detach().requires_grad_();
      const at::Tensor x = at::randn({29, in}, options).requires_grad_();
      const at::Tensor found = grouped_linear(x, weights, at::tensor(ends, at::kInt).to(device));
      const at::Tensor exact_x = x.detach().to(at::kDouble).requires_grad_();
      const at::Tensor exact_weights = weights.detach().to(at::kDouble).requires_grad_();
      const at::Tensor expected = expected_products(exact_x, exact_weights, ends);
      EXPECT_LT(relative_error(found, expected), tolerance) << in << " columns, gap " << gap;
      const at::Tensor grad = at::randn({29, out}, options);
      const auto back = torch::autograd::grad({found}, {x, weights}, {grad});
      const auto exact = torch::autograd::grad({expected}, {exact_x, exact_weights}, {grad.to(at::kDouble)});
      EXPECT_LT(relative_error(back[0], exact[0]), tolerance) << in << " columns, gap " << gap;
      EXPECT_LT(relative_error(back[1], exact[1]), tolerance) << in << " columns, gap " << gap;
      for (const std::int64_t group : {0, 2, 5})
        EXPECT_EQ(back[1].select(0, group).abs().max().item<double>(), 0) << "group " << group;
    }
}

TEST(GroupedLinear, MultipliesEachRowByTheMatrixOfItsGroup) {
  check_grouped_linear(at::kCPU, at::kFloat, 1e-6);
  check_grouped_linear(at::kCPU, at::kBFloat16, 4e-3);
}

TEST(GroupedLinear, ComputesNoGradientOfFrozenMatrices) {
  const at::Tensor x = at::randn({3, 4}).requires_grad_(), weights = at::randn({2, 5, 4});
  const at::Tensor out = grouped_linear(x, weights, at::tensor({1, 3}, at::kInt));
  EXPECT_EQ(torch::autograd::grad({out.sum()}, {x})[0].size(0), 3);
}

TEST(GroupedLinear, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_grouped_linear(at::kCUDA, at::kFloat, 1e-6);
  check_grouped_linear(at::kCUDA, at::kBFloat16, 4e-3);
}

}  // namespace
}  // namespace dpo::ops
