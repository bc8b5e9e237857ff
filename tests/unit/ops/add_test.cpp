#include "ops/add.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

// Checks a + b + c. In 16 bits, the order of the additions and the rounding between them matter.
void check_sum(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  const std::vector<at::Tensor> leaves = {a.detach().requires_grad_(), b.detach().requires_grad_(),
                                          c.detach().requires_grad_()};
  const at::Tensor sum = add_three(leaves[0], leaves[1], leaves[2]);
  EXPECT_TRUE(sum.equal(a + b + c)) << a.scalar_type() << ", " << a.sizes();
  const at::Tensor grad = at::randn(sum.sizes(), sum.options());
  const std::vector<at::Tensor> back = torch::autograd::grad({sum}, leaves, {grad});
  for (std::size_t i = 0; i < leaves.size(); ++i)
    EXPECT_TRUE(back[i].equal(grad.sum_to_size(leaves[i].sizes()))) << "gradient " << i;
}

void check_sums_of_three(at::Device device) {
  at::manual_seed(0);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const auto random = [&](at::IntArrayRef sizes) {
      return at::randn(sizes, at::TensorOptions(device).dtype(type));
    };
    using Sizes = std::vector<std::int64_t>;
    for (const Sizes& sizes :
         {Sizes{1, 1}, Sizes{3, 7}, Sizes{700, 24}, Sizes{0, 8}, Sizes{1500, 1024}, Sizes{2, 3, 8}})
      check_sum(random(sizes), random(sizes), random(sizes));
    // These inputs begin where no pack may, have gaps, or have other sizes.
    const at::Tensor matrix = random({9, 40});
    check_sum(matrix.flatten().narrow(0, 3, 320), random({320}), random({320}));
    check_sum(matrix.narrow(1, 8, 16), random({9, 16}), random({9, 16}));
    check_sum(random({5, 16}), random({5, 16}).t().contiguous().t(), random({5, 16}));
    check_sum(random({5, 16}), random({16}), random({5, 16}));
  }
}

TEST(AddThree, IsThePlainSum) { check_sums_of_three(at::kCPU); }

TEST(AddThree, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_sums_of_three(at::kCUDA);
}

// Frozen inputs must get no gradient.
TEST(AddThree, OfFrozenTensors) {
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA)}) {
    if (device.is_cuda() && !has_gpu()) continue;
    const at::Tensor x = at::randn({4, 8}, at::TensorOptions(device));
    EXPECT_FALSE(add_three(x, x, x).requires_grad());
    const at::Tensor leaf = x.detach().requires_grad_();
    const at::Tensor sum = add_three(x, leaf, leaf);
    EXPECT_TRUE(torch::autograd::grad({sum}, {leaf}, {x})[0].equal(x + x));
  }
}

}  // namespace
}  // namespace dpo::ops
