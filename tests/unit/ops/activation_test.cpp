#include "ops/activation.h"

#include <cmath>

#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

constexpr Activation kActivations[] = {Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                       Activation::silu};

// Computes the textbook formula.
at::Tensor expected_activation(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu: return x * (1 + (x / std::sqrt(2.0)).erf()) / 2;
    case Activation::gelu_tanh: return x * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh()) / 2;
    case Activation::relu: return x.relu();
    case Activation::silu: break;
  }
  return x * x.sigmoid();
}

at::Tensor wide(const at::Tensor& leaf) { return leaf.detach().to(at::kDouble).requires_grad_(); }

void expect_gradients(const at::Tensor& out, const std::vector<at::Tensor>& leaves,
                      const at::Tensor& expected, const std::vector<at::Tensor>& wide_leaves,
                      double tolerance) {
  EXPECT_LT(relative_error(out, expected), tolerance);
  const at::Tensor grad = at::randn(out.sizes(), out.options());
  const auto back = torch::autograd::grad({out}, leaves, {grad});
  const auto wide_back = torch::autograd::grad({expected}, wide_leaves, {grad.to(at::kDouble)});
  for (std::size_t i = 0; i < back.size(); ++i)
    EXPECT_LT(relative_error(back[i], wide_back[i]), tolerance) << "gradient " << i;
}

void check_activations(const at::TensorOptions& options, std::int64_t rows, std::int64_t width,
                       double tolerance) {
  for (const Activation activation : kActivations) {
    const at::Tensor x = at::randn({rows, width}, options).requires_grad_(), wide_x = wide(x);
    const at::Tensor bias = at::randn({width}, options).requires_grad_(), wide_bias = wide(bias);
    expect_gradients(bias_activation(x, bias, activation), {x, bias},
                     expected_activation(wide_x + wide_bias, activation), {wide_x, wide_bias}, tolerance);
    expect_gradients(bias_activation(x, {}, activation), {x}, expected_activation(wide_x, activation),
                     {wide_x}, tolerance);
    const at::Tensor up = at::randn({rows, width}, options).requires_grad_(), wide_up = wide(up);
    const at::Tensor product = expected_activation(wide_x, activation) * wide_up;
    expect_gradients(gated_activation(x, up, activation), {x, up}, product, {wide_x, wide_up}, tolerance);
    const at::Tensor both = at::cat({x, up}, 1).detach().requires_grad_(), wide_both = wide(both);
    expect_gradients(
        gated_activation(both, activation), {both},
        expected_activation(wide_both.narrow(1, 0, width), activation) * wide_both.narrow(1, width, width),
        {wide_both}, tolerance);
  }
}

TEST(Activation, ValuesAndGradients) {
  check_activations(at::kFloat, 5, 24, 1e-5);
  check_activations(at::kBFloat16, 5, 24, 1e-2);
}

TEST(Activation, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 7}, {700, 24}, {1500, 4100}, {37, 10240}}) {
    check_activations(at::TensorOptions(at::kCUDA).dtype(at::kFloat), rows, width, 1e-5);
    check_activations(at::TensorOptions(at::kCUDA).dtype(at::kBFloat16), rows, width, 1e-2);
    check_activations(at::TensorOptions(at::kCUDA).dtype(at::kHalf), rows, width, 2e-3);
  }
}

}  // namespace
}  // namespace dpo::ops
