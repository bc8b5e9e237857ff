#include "ops/norms.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

// Computes the textbook formula.
at::Tensor expected_norm(const at::Tensor& x, const NormWeights& norm, const NormOptions& options) {
  const at::Tensor centred = options.is_layer_norm ? x - x.mean(-1, true) : x;
  const at::Tensor scale = (centred.square().mean(-1, true) + options.epsilon).rsqrt();
  const at::Tensor out = centred * scale * (norm.weight + options.weight_offset);
  return norm.bias.defined() ? out + norm.bias : out;
}

struct NormCase {
  bool is_layer_norm, has_residual, has_bias;
  std::size_t norms;
  double weight_offset;
};

// Compares values and gradients of the sum and of every norm with float64.
void check_norm(at::Device device, at::ScalarType dtype, std::int64_t rows, std::int64_t width, NormCase c,
                double tolerance) {
  std::vector<at::Tensor> leaves, wide_leaves;
  const auto leaf = [&](at::IntArrayRef sizes) {
    leaves.push_back(at::randn(sizes, at::TensorOptions(device).dtype(dtype)).requires_grad_());
    wide_leaves.push_back(leaves.back().detach().to(at::kDouble).requires_grad_());
    return leaves.size() - 1;
  };
  leaf({rows, width});
  if (c.has_residual) leaf({rows, width});
  std::vector<NormWeights> norms, wide_norms;
  for (std::size_t k = 0; k < c.norms; ++k) {
    const std::size_t weight = leaf({width});
    norms.push_back({leaves[weight], {}});
    wide_norms.push_back({wide_leaves[weight], {}});
    if (!c.has_bias) continue;
    const std::size_t bias = leaf({width});
    norms.back().bias = leaves[bias];
    wide_norms.back().bias = wide_leaves[bias];
  }
  const NormOptions options{c.is_layer_norm, 1e-5, c.weight_offset};
  const Normed found = add_norm(leaves[0], c.has_residual ? leaves[1] : at::Tensor(), norms, options);
  const at::Tensor sum = c.has_residual ? wide_leaves[0] + wide_leaves[1] : wide_leaves[0];
  std::vector<at::Tensor> outputs = {found.sum}, wide_outputs = {sum}, grads, wide_grads;
  EXPECT_LT(relative_error(found.sum, sum), tolerance);
  ASSERT_EQ(found.out.size(), c.norms);
  for (std::size_t k = 0; k < c.norms; ++k) {
    outputs.push_back(found.out[k]);
    wide_outputs.push_back(expected_norm(sum, wide_norms[k], options));
    EXPECT_LT(relative_error(outputs.back(), wide_outputs.back()), tolerance) << k;
  }
  for (const at::Tensor& output : outputs) {
    grads.push_back(at::randn(output.sizes(), output.options()));
    wide_grads.push_back(grads.back().to(at::kDouble));
  }
  const auto back = torch::autograd::grad(outputs, leaves, grads);
  const auto wide_back = torch::autograd::grad(wide_outputs, wide_leaves, wide_grads);
  for (std::size_t i = 0; i < back.size(); ++i)
    EXPECT_LT(relative_error(back[i], wide_back[i]), tolerance) << "gradient " << i << ", width " << width;
}

void check_norms(at::Device device, at::ScalarType dtype, double tolerance) {
  at::manual_seed(0);  // gradients of weights may happen to add up to nearly nothing
  for (const std::int64_t width : {1, 7, 64, 328, 768, 2560, 5120})  // 7 is no multiple of a pack
    for (const std::int64_t rows : {1, 37, 1100})
      for (const NormCase& c : {NormCase{true, false, true, 2, 0}, NormCase{true, true, true, 1, 0},
                                NormCase{true, false, false, 1, 0}, NormCase{false, true, false, 1, 0},
                                NormCase{false, false, false, 1, 1}, NormCase{false, true, false, 2, 0}})
        if (width > 1 || !c.is_layer_norm)  // a layer norm of width 1 is always 0
          check_norm(device, dtype, rows, width, c, tolerance);
}

TEST(AddNorm, ValuesAndGradients) {
  check_norm(at::kCPU, at::kFloat, 5, 48, {true, false, true, 2, 0}, 1e-5);
  check_norm(at::kCPU, at::kFloat, 5, 48, {false, true, false, 1, 1}, 1e-5);
  check_norm(at::kCPU, at::kBFloat16, 5, 48, {true, true, false, 1, 0}, 1e-2);
}

TEST(AddNorm, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_norms(at::kCUDA, at::kFloat, 1e-5);
  check_norms(at::kCUDA, at::kBFloat16, 1e-2);
}

TEST(AddNorm, WithoutGradientsOfSomeOutputs) {
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)}) {
    if (device.is_cuda() && !has_gpu()) continue;
    const auto x = at::randn({5, 32}, at::TensorOptions(device)).requires_grad_();
    const auto weight = at::randn({32}, at::TensorOptions(device)).requires_grad_();
    const Normed found = add_norm(x, {}, {{weight, {}}, {weight, {}}}, {false, 1e-5});
    const auto one = torch::autograd::grad({found.out[1]}, {x}, {found.out[1].detach()}, true);
    const auto other = torch::autograd::grad({found.out[0]}, {x}, {found.out[0].detach()}, true);
    EXPECT_TRUE(one[0].equal(other[0]));
    const auto sum = torch::autograd::grad({found.sum}, {x}, {x.detach()}, false, false, true);
    EXPECT_TRUE(sum[0].allclose(x));
  }
}

}  // namespace
}  // namespace dpo::ops
