#include "ops/forest_attention.h"

#include <cmath>
#include <random>

#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/devices.h"
#include "ops/fused.h"
#include "ops/fused_trees.h"
#include "ops/qkv.h"
#include "unit/ops/compare.h"
#include "unit/ops/random_forest.h"

namespace dpo::ops {
namespace {

at::Tensor dense_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& allowed, const AttentionOptions& options) {
  const std::int64_t groups = q.size(1) / k.size(1);
  const auto by_head = [](const at::Tensor& x) { return x.transpose(0, 1); };
  const at::Tensor keys = by_head(k.repeat_interleave(groups, 1)),
                   values = by_head(v.repeat_interleave(groups, 1));
  at::Tensor scores = at::matmul(by_head(q), keys.transpose(1, 2)) * options.scale;
  if (options.soft_cap > 0) scores = (scores / options.soft_cap).tanh() * options.soft_cap;
  return at::matmul(at::softmax(scores.masked_fill(allowed.logical_not(), -INFINITY), -1), values)
      .transpose(0, 1);
}

struct Case {
  at::Device device;
  at::ScalarType dtype;
  double tolerance;
  int stretch = 1;
  std::int64_t window = 0;
  double soft_cap = 0;
};

// Compares our attention in the case's precision with dense attention in float64 over the same rounded
// inputs.
void check_attention(const Case& c, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                     unsigned seed) {
  std::mt19937 random(seed);
  const Forest forest = random_forest(random, c.device, 1 + static_cast<int>(seed % 6), c.stretch, c.window);
  const std::int64_t tokens = forest.layout->sequences.tokens();
  const auto options = at::TensorOptions().device(c.device).dtype(c.dtype);
  const auto input = [&](std::int64_t count) {
    return at::randn({tokens, count, head_dim}, options).requires_grad_();
  };
  const at::Tensor q = input(heads), k = input(kv_heads), v = input(kv_heads);
  const at::Tensor grad = at::randn({tokens, heads, head_dim}, options);
  const AttentionOptions attention{1 / std::sqrt(static_cast<double>(head_dim)), c.soft_cap, c.window};
  const at::Tensor out = forest_attention(q, k, v, forest.layout, attention);
  const auto grads = torch::autograd::grad({out}, {q, k, v}, {grad});
  const auto exact = [](const at::Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(); };
  const at::Tensor eq = exact(q), ek = exact(k), ev = exact(v);
  const at::Tensor expected = dense_attention(eq, ek, ev, forest.allowed, attention);
  const auto expected_grads = torch::autograd::grad({expected}, {eq, ek, ev}, {grad.to(at::kDouble)});
  EXPECT_LT(relative_error(out, expected), c.tolerance) << "seed " << seed;
  for (std::size_t i = 0; i < grads.size(); ++i)
    EXPECT_LT(relative_error(grads[i], expected_grads[i]), c.tolerance)
        << "gradient " << i << ", seed " << seed;
}

void check_many(const Case& c) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    check_attention(c, 4, 4, 16, seed);
    check_attention(c, 6, 2, 8, seed);
    check_attention(c, 4, 1, 20, seed);
  }
}

TEST(ForestAttention, EqualsDenseAttentionInFloat32) { check_many({at::kCPU, at::kFloat, 1e-5}); }
TEST(ForestAttention, EqualsDenseAttentionInFloat64) { check_many({at::kCPU, at::kDouble, 1e-12}); }
// The texts are longer than the number of queries that are computed at a time.
TEST(ForestAttention, EqualsDenseAttentionOfLongTexts) { check_many({at::kCPU, at::kFloat, 1e-5, 9}); }
TEST(ForestAttention, IsCloseInBfloat16) { check_many({at::kCPU, at::kBFloat16, 1e-2}); }
TEST(ForestAttention, IsCloseInFloat16) { check_many({at::kCPU, at::kHalf, 2e-3}); }

// A response's window reaches into its own prompt.
TEST(ForestAttention, WithinAWindow) {
  for (const std::int64_t window : {1, 5, 1000}) check_many({at::kCPU, at::kDouble, 1e-12, 1, window});
  check_many({at::kCPU, at::kFloat, 1e-5, 5, 40});
  check_many({at::kCPU, at::kBFloat16, 1e-2, 1, 6});
}
TEST(ForestAttention, WithSoftCaps) {
  check_many({at::kCPU, at::kDouble, 1e-12, 1, 0, 0.7});
  check_many({at::kCPU, at::kFloat, 1e-5, 5, 40, 1.5});
}
TEST(ForestAttention, OnCudaWithinAWindowAndWithSoftCaps) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const std::int64_t window : {2, 5, 30, 1000})
    for (const double cap : {0.0, 1.5}) {
      check_many({at::kCUDA, at::kFloat, 1e-5, 4, window, cap});
      check_many({at::kCUDA, at::kBFloat16, 1e-2, 4, window, cap});
    }
}

TEST(ForestAttention, OnCudaInFloat32) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_many({at::kCUDA, at::kFloat, 1e-5});
}
TEST(ForestAttention, OnCudaInBfloat16) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_many({at::kCUDA, at::kBFloat16, 1e-2});
}
TEST(ForestAttention, OnCudaInFloat16) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_many({at::kCUDA, at::kHalf, 2e-3});
}

// Keeps queries, keys and values in one matrix, as layers do, so that their gradients are in one matrix too.
void check_trees(at::Device device, const QkvLayout& shape, unsigned seed) {
  std::mt19937 random(seed);
  const Forest forest = random_forest(random, device, 1 + static_cast<int>(seed % 6), /*stretch=*/9, 0);
  const std::int64_t tokens = forest.layout->sequences.tokens();
  const auto options = at::TensorOptions().device(device).dtype(at::kBFloat16);
  const at::Tensor qkv =
      at::randn({tokens, (shape.heads + 2 * shape.kv_heads) * shape.head_dim}, options).requires_grad_();
  const at::Tensor grad = at::randn({tokens, shape.heads, shape.head_dim}, options);
  const at::Tensor angles = at::randn({tokens, shape.head_dim / 4}, options.dtype(at::kFloat));
  const AttentionOptions attention{1 / std::sqrt(static_cast<double>(shape.head_dim))};
  // On a GPU the rotation is in place, so it gets a copy.
  const auto attend = [&](const at::Tensor& product, bool dense) {
    const Heads heads = rotated_heads(product.clone(), shape, {angles.cos(), angles.sin(), false});
    return dense ? dense_attention(heads.q, heads.k, heads.v, forest.allowed, attention)
                 : forest_attention(heads.q, heads.k, heads.v, forest.layout, attention);
  };
  const at::Tensor exact = qkv.detach().to(at::kFloat).requires_grad_();
  const at::Tensor out = attend(qkv, false), expected = attend(exact, true);
  const auto gradient = torch::autograd::grad({out}, {qkv}, {grad})[0];
  const auto expected_gradient = torch::autograd::grad({expected}, {exact}, {grad.to(at::kFloat)})[0];
  EXPECT_LT(relative_error(out, expected), 1e-2) << "seed " << seed;
  EXPECT_LT(relative_error(gradient, expected_gradient), 1e-2) << "seed " << seed;
}

void check_trees(at::Device device) {
  for (unsigned seed = 0; seed < 6; ++seed)
    for (const std::int64_t head_dim : {64, 80, 96, 128}) {
      check_trees(device, {4, 4, head_dim, true}, seed);
      check_trees(device, {4, 4, head_dim, false}, seed);
      check_trees(device, {6, 2, head_dim, false}, seed);
    }
}

TEST(ForestAttention, OfHeadsInOneMatrix) { check_trees(at::kCPU, {4, 2, 64, false}, 1); }
TEST(ForestAttention, OnCudaOfHeadsInOneMatrix) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_trees(at::kCUDA);
}

// Checks no trees, and one tree without tokens.
void check_empty(at::Device device, at::ScalarType dtype, std::int64_t head_dim) {
  for (const std::vector<std::int32_t>& starts : {std::vector<std::int32_t>{0}, {0, 0}}) {
    const auto layout = std::make_shared<const ForestLayout>(make_layout(starts, starts, starts, device));
    const auto input = [&](std::int64_t heads) {
      return at::zeros({0, heads, head_dim}, at::TensorOptions(device).dtype(dtype)).requires_grad_();
    };
    const at::Tensor q = input(4), k = input(2), v = input(2);
    const at::Tensor out = forest_attention(q, k, v, layout, {});
    EXPECT_EQ(out.sizes(), q.sizes());
    const auto grads = torch::autograd::grad({out}, {q, k, v}, {at::zeros_like(out)});
    EXPECT_EQ(grads[0].sizes(), q.sizes());
    EXPECT_EQ(grads[1].sizes(), k.sizes());
    EXPECT_EQ(grads[2].sizes(), v.sizes());
  }
}

TEST(ForestAttention, OfAnEmptyForest) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) check_empty(at::kCPU, dtype, 64);
  EXPECT_TRUE(make_tree_tiles({0}, {0}, {0}).query_tiles.empty());
  EXPECT_TRUE(make_tree_tiles({0, 0, 0}, {0, 0}, {0, 0}).query_tiles.empty());
}

// Calls the tree kernels directly, because forest_attention() would compute the same result without them.
class TreeKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
    if (!fused::has_kernels()) GTEST_SKIP() << "built without our kernels";
    if (list_gpus().empty() || !list_gpus().front().at_least(8, 0)) GTEST_SKIP() << "no GPU of 8.0 or newer";
  }
};

// Compares with autograd's gradients of dense attention over the same rounded inputs.
void expect_close(const AttentionOutput& found, const AttentionGradients& gradients, const Heads& heads,
                  const at::Tensor& grad, const at::Tensor& allowed, const AttentionOptions& options) {
  const auto exact = [](const at::Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(); };
  const at::Tensor q = exact(heads.q), k = exact(heads.k), v = exact(heads.v);
  const at::Tensor expected = dense_attention(q, k, v, allowed, options);
  const auto expected_grads = torch::autograd::grad({expected}, {q, k, v}, {grad.to(at::kDouble)});
  EXPECT_LT(relative_error(found.out, expected), 1e-2);
  EXPECT_LT(relative_error(gradients.q, expected_grads[0]), 1e-2);
  EXPECT_LT(relative_error(gradients.k, expected_grads[1]), 1e-2);
  EXPECT_LT(relative_error(gradients.v, expected_grads[2]), 1e-2);
}

TEST_F(TreeKernels, SupportCommonSizesOfHeads) {
  ASSERT_TRUE(fused::has_tree_kernels(at::kCUDA));
  ASSERT_TRUE(fused::has_tree_kernels({at::kCUDA, 0}));
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  std::mt19937 random(1);
  for (const std::int64_t head_dim : {64, 80, 96, 128}) {
    SCOPED_TRACE(head_dim);
    const auto [layout, allowed] = random_forest(random, at::kCUDA, 6, /*stretch=*/9, 0);
    const AttentionOptions attention{1 / std::sqrt(static_cast<double>(head_dim))};
    const at::Tensor qkv = at::randn({layout->sequences.tokens(), 6 + 2 + 2, head_dim}, options);
    const at::Tensor grad = at::randn({layout->sequences.tokens(), 6, head_dim}, options);
    const Heads parts{qkv.narrow(1, 0, 6), qkv.narrow(1, 6, 2), qkv.narrow(1, 8, 2)};
    const Heads apart{parts.q.contiguous(), parts.k.contiguous(), parts.v.contiguous()};
    for (const Heads& heads : {parts, apart}) {
      ASSERT_TRUE(fused::supports_trees(heads.q, heads.k, heads.v, layout->trees, attention));
      const AttentionOutput found = fused::attend_trees(heads.q, heads.k, heads.v, layout->trees, attention);
      ASSERT_TRUE(fused::supports_trees_backward(grad, found));
      const AttentionGradients gradients =
          fused::attend_trees_backward(grad, heads.q, heads.k, heads.v, found, layout->trees, attention);
      expect_close(found, gradients, heads, grad, allowed, attention);
      const bool in_one = heads.q.is_alias_of(heads.k);
      EXPECT_EQ(gradients.q.is_alias_of(gradients.k), in_one);
      EXPECT_EQ(gradients.q.is_alias_of(gradients.v), in_one);
    }
  }
}

TEST_F(TreeKernels, AttendOverLongSequencesWithoutPrompts) {
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  const std::int64_t tokens = 1800;
  const auto layout = make_layout({0, 0, 0, 700, 1800}, {0, 700, 1800}, {0, 0, 0}, at::kCUDA);
  at::Tensor allowed = at::zeros({tokens, tokens}, options.dtype(at::kBool));
  allowed.narrow(0, 0, 700).narrow(1, 0, 700).fill_(true);
  allowed.narrow(0, 700, 1100).narrow(1, 700, 1100).fill_(true);
  allowed = allowed.tril();
  for (const std::int64_t head_dim : {64, 80, 96, 128}) {
    SCOPED_TRACE(head_dim);
    const AttentionOptions attention{1 / std::sqrt(static_cast<double>(head_dim))};
    const auto random = [&](std::int64_t heads) { return at::randn({tokens, heads, head_dim}, options); };
    const Heads heads{random(4), random(2), random(2)};
    const at::Tensor grad = random(4);
    ASSERT_TRUE(fused::supports_trees(heads.q, heads.k, heads.v, layout.trees, attention));
    const AttentionOutput found = fused::attend_trees(heads.q, heads.k, heads.v, layout.trees, attention);
    ASSERT_TRUE(fused::supports_trees_backward(grad, found));
    const AttentionGradients gradients =
        fused::attend_trees_backward(grad, heads.q, heads.k, heads.v, found, layout.trees, attention);
    expect_close(found, gradients, heads, grad, allowed, attention);
  }
}

TEST_F(TreeKernels, LeaveOtherCallsToLibTorch) {
  std::mt19937 random(1);
  const auto [layout, allowed] = random_forest(random, at::kCUDA, 2, /*stretch=*/1, 0);
  const std::int64_t tokens = layout->sequences.tokens();
  const auto supports = [&](std::int64_t head_dim, at::ScalarType dtype, const AttentionOptions& attention) {
    const at::Tensor x = at::randn({tokens, 4, head_dim}, at::TensorOptions(at::kCUDA).dtype(dtype));
    return fused::supports_trees(x, x, x, layout->trees, attention);
  };
  EXPECT_TRUE(supports(64, at::kBFloat16, {}));
  EXPECT_FALSE(supports(32, at::kBFloat16, {}));
  EXPECT_FALSE(supports(64, at::kHalf, {}));
  EXPECT_FALSE(supports(64, at::kFloat, {}));
  EXPECT_FALSE(supports(64, at::kBFloat16, {.soft_cap = 30}));
  EXPECT_FALSE(supports(64, at::kBFloat16, {.window = 5}));
}

TEST_F(TreeKernels, DoNothingForAnEmptyForest) { check_empty(at::kCUDA, at::kBFloat16, 64); }

// The sequence is long enough that gradients are sums over many tiles, and those of keys and values also over
// four heads.
TEST(ForestAttention, OnCudaGivesTheSameBitsEveryTime) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const std::vector<std::int32_t> prompts{0, 2000}, branches{0, 1200}, sequences{0, 2000, 2500, 2600, 3200};
  const auto layout =
      std::make_shared<const ForestLayout>(make_layout(sequences, branches, prompts, at::kCUDA));
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const std::int64_t head_dim : {64, 80, 128}) {
      const auto options = at::TensorOptions().device(at::kCUDA).dtype(dtype);
      const auto input = [&](std::int64_t heads) {
        return at::randn({3200, heads, head_dim}, options).requires_grad_();
      };
      const at::Tensor q = input(8), k = input(2), v = input(2), grad = at::randn_like(q);
      const auto once = [&] {
        return torch::autograd::grad({forest_attention(q, k, v, layout, {.scale = 0.1})}, {q, k, v}, {grad});
      };
      const auto first = once();
      for (int i = 0; i < 20; ++i) {
        const auto again = once();
        for (std::size_t g = 0; g < first.size(); ++g)
          EXPECT_TRUE(at::equal(first[g], again[g])) << dtype << ", heads of " << head_dim;
      }
    }
}

}  // namespace
}  // namespace dpo::ops
