#include "ops/rotary.h"

#include <cmath>
#include <random>

#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

// Computes the textbook formula: the pair (a, b) becomes (a cos - b sin, a sin + b cos).
at::Tensor expected_rotation(const at::Tensor& x, const at::Tensor& angles, bool interleaved) {
  at::Tensor out = x.clone();
  const std::int64_t count = angles.size(1);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + count;
    const at::Tensor c = angles.select(1, i).cos().unsqueeze(1), s = angles.select(1, i).sin().unsqueeze(1);
    out.select(2, first).copy_(x.select(2, first) * c - x.select(2, second) * s);
    out.select(2, second).copy_(x.select(2, first) * s + x.select(2, second) * c);
  }
  return out;
}

void check_rotary(at::Device device, at::ScalarType dtype, double tolerance) {
  for (const bool interleaved : {false, true})
    for (const std::int64_t count : {1, 3, 8}) {
      const auto options = at::TensorOptions().device(device);
      const at::Tensor wide = at::randn({7, 3, 48}, options.dtype(dtype));
      const at::Tensor x =
          wide.narrow(2, 16, 16).detach().requires_grad_();  // not contiguous, as a part of q|k|v is
      const at::Tensor angles = at::rand({7, count}, options.dtype(at::kDouble)) * 6;
      const at::Tensor cos = angles.cos().to(at::kFloat), sin = angles.sin().to(at::kFloat);
      const at::Tensor out = apply_rotary(x, cos, sin, interleaved);
      EXPECT_LT(relative_error(out, expected_rotation(x.detach().to(at::kDouble), angles, interleaved)),
                tolerance);
      const at::Tensor grad = at::randn({7, 3, 16}, options.dtype(dtype));
      const at::Tensor back = torch::autograd::grad({out}, {x}, {grad})[0];
      EXPECT_LT(relative_error(back, expected_rotation(grad.to(at::kDouble), -angles, interleaved)),
                tolerance);
    }
}

TEST(Rotary, RotatesPairsAndTheirGradientsBack) {
  check_rotary(at::kCPU, at::kFloat, 1e-6);
  check_rotary(at::kCPU, at::kBFloat16, 4e-3);
}

TEST(Rotary, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_rotary(at::kCUDA, at::kFloat, 1e-6);
  check_rotary(at::kCUDA, at::kBFloat16, 4e-3);
}

}  // namespace
}  // namespace dpo::ops
