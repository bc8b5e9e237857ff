#include "ops/forest_attention.h"

#include <array>
#include <cmath>
#include <random>
#include <span>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/cuda/trees.h"
#include "ops/devices.h"
#include "ops/fused.h"
#include "ops/fused_trees.h"
#include "ops/qkv.h"
#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

struct Forest {
  std::shared_ptr<const ForestLayout> layout;
  at::Tensor allowed;  // bool [tokens, tokens]: what the query of a row may look at
};

// Trees of 0 to 8 responses; some forests have no prompts. A prompt has up to 12 tokens and a response up to
// 20, or `stretch` times as many; some have none, and some about 16, 32 or 64, as the kernels' tiles have.
Forest random_forest(std::mt19937& random, at::Device device, int trees, int stretch, std::int64_t window) {
  const auto draw = [&random](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const auto draw_length = [&](int most) {
    constexpr std::array kEdges{15, 16, 17, 31, 32, 33, 63, 64, 65};
    switch (draw(0, 7)) {
      case 0: return 0;
      case 1: return 1;
      case 2: return kEdges[static_cast<std::size_t>(draw(0, kEdges.size() - 1))];
      default: return draw(1, most * stretch);
    }
  };
  const bool has_prompts = draw(0, 5) > 0;
  std::vector<std::int32_t> prompts{0}, branches{0}, sequences{0};
  std::vector<std::vector<std::int32_t>> responses;
  for (int t = 0; t < trees; ++t) {
    prompts.push_back(prompts.back() + (has_prompts ? draw_length(12) : 0));
    sequences.push_back(prompts.back());
    responses.emplace_back();
    for (int r = draw(0, 8); r > 0; --r) responses.back().push_back(draw_length(20));
  }
  for (const auto& of_tree : responses) {
    branches.push_back(branches.back());
    for (const std::int32_t length : of_tree) {
      branches.back() += length;
      sequences.push_back(sequences.back() + length);
    }
  }
  at::Tensor allowed = at::zeros({sequences.back(), sequences.back()}, at::kBool);
  at::Tensor positions = at::zeros({sequences.back()}, at::kLong);
  std::int64_t sequence = trees;
  for (std::size_t i = 0; i + 1 < sequences.size(); ++i)
    for (std::int32_t q = sequences[i]; q < sequences[i + 1]; ++q) {
      allowed[q].narrow(0, sequences[i], q - sequences[i] + 1).fill_(true);
      positions[q] = q - sequences[i];
    }
  for (std::size_t t = 0; t < responses.size(); ++t)
    for (std::size_t r = 0; r < responses[t].size(); ++r, ++sequence)
      for (std::int32_t q = sequences[static_cast<std::size_t>(sequence)];
           q < sequences[static_cast<std::size_t>(sequence) + 1]; ++q) {
        allowed[q].narrow(0, prompts[t], prompts[t + 1] - prompts[t]).fill_(true);
        positions[q] += prompts[t + 1] - prompts[t];
      }
  ForestLayout layout = make_layout(sequences, branches, prompts, device);
  if (window > 0) {
    layout.window = make_window(layout, window);
    allowed = allowed.logical_and(positions.unsqueeze(1) - positions.unsqueeze(0) < window);
  }
  return {std::make_shared<const ForestLayout>(std::move(layout)), allowed.to(device)};
}

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

// Ours in the case's precision against dense attention in float64 over the same, rounded, inputs.
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
// Longer than the queries that are computed at a time.
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

// Queries, keys and values in one matrix, as layers have them, so that the gradients are too.
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
  // A GPU rotates in place, so it gets a copy.
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

// Without trees, and with one without tokens.
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

// The kernels over trees themselves: forest_attention() would compute the same without them.
class TreeKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
    if (!fused::has_kernels()) GTEST_SKIP() << "built without our kernels";
    if (list_gpus().empty() || !list_gpus().front().at_least(8, 0)) GTEST_SKIP() << "no GPU of 8.0 or newer";
  }
};

// Gradients as autograd has them of dense attention over the same, rounded, inputs.
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
      AttentionOutput found;
      ASSERT_TRUE(fused::attend_trees(found, heads.q, heads.k, heads.v, layout->trees, attention));
      AttentionGradients gradients;
      ASSERT_TRUE(fused::attend_trees_backward(gradients, grad, heads.q, heads.k, heads.v, found,
                                               layout->trees, attention));
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
    AttentionOutput found;
    ASSERT_TRUE(fused::attend_trees(found, heads.q, heads.k, heads.v, layout.trees, attention));
    AttentionGradients gradients;
    ASSERT_TRUE(fused::attend_trees_backward(gradients, grad, heads.q, heads.k, heads.v, found, layout.trees,
                                             attention));
    expect_close(found, gradients, heads, grad, allowed, attention);
  }
}

TEST_F(TreeKernels, LeaveOtherCallsToLibTorch) {
  std::mt19937 random(1);
  const auto [layout, allowed] = random_forest(random, at::kCUDA, 2, /*stretch=*/1, 0);
  const std::int64_t tokens = layout->sequences.tokens();
  const auto supports = [&](std::int64_t head_dim, at::ScalarType dtype, const AttentionOptions& attention) {
    const at::Tensor x = at::randn({tokens, 4, head_dim}, at::TensorOptions(at::kCUDA).dtype(dtype));
    AttentionOutput found;
    return fused::attend_trees(found, x, x, x, layout->trees, attention);
  };
  EXPECT_TRUE(supports(64, at::kBFloat16, {}));
  EXPECT_FALSE(supports(32, at::kBFloat16, {}));
  EXPECT_FALSE(supports(64, at::kHalf, {}));
  EXPECT_FALSE(supports(64, at::kFloat, {}));
  EXPECT_FALSE(supports(64, at::kBFloat16, {.soft_cap = 30}));
  EXPECT_FALSE(supports(64, at::kBFloat16, {.window = 5}));
}

TEST_F(TreeKernels, DoNothingForAnEmptyForest) { check_empty(at::kCUDA, at::kBFloat16, 64); }

std::span<const cuda::TreeTile> tiles_in(const std::vector<std::int32_t>& numbers) {
  return {reinterpret_cast<const cuda::TreeTile*>(numbers.data()),
          numbers.size() * sizeof(std::int32_t) / sizeof(cuda::TreeTile)};
}

// Calls action(own, other) for each token of a tile with each token of its tree, by their numbers.
template <class Action>
void for_each_pair(const cuda::TreeTile& tile, const Action& action) {
  const std::int32_t first = tile.number * cuda::kTreeTile;
  for (std::int32_t own = first; own < std::min(first + cuda::kTreeTile, tile.tokens); ++own)
    for (std::int32_t other = 0; other < tile.tokens; ++other) action(own, other);
}

std::int32_t token_in(const cuda::TreeTile& tile, std::int32_t number) {
  return number < tile.prompt_tokens ? tile.prompt + number : tile.responses + number - tile.prompt_tokens;
}

// Every pair of a query and a key that it sees is in a tile of each.
TEST(ForestAttention, TilesHaveAllPairs) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto [layout, allowed] = random_forest(random, at::kCPU, 4, 1 + static_cast<int>(seed) % 15, 0);
    const TreeTiles made =
        make_tree_tiles(layout->sequences.starts, layout->branches.starts, layout->prompts.starts);
    const at::Tensor found = at::zeros_like(allowed), seen = at::zeros_like(allowed);
    auto found_pairs = found.accessor<bool, 2>(), seen_pairs = seen.accessor<bool, 2>();
    for (const cuda::TreeTile& tile : tiles_in(made.query_tiles))
      for_each_pair(tile, [&](std::int32_t own, std::int32_t other) {
        const std::int32_t other_tile = other / cuda::kTreeTile;
        const std::int32_t start = made.starts[static_cast<std::size_t>(token_in(tile, own))];
        if (other <= own && (other < tile.prompt_tokens || other >= start) &&
            (other_tile < tile.shared_end || (other_tile >= tile.own_begin && other_tile <= tile.number)))
          found_pairs[token_in(tile, own)][token_in(tile, other)] = true;
      });
    for (const cuda::TreeTile& tile : tiles_in(made.key_tiles))
      for_each_pair(tile, [&](std::int32_t own, std::int32_t other) {
        const std::int32_t other_tile = other / cuda::kTreeTile;
        if (other_tile >= tile.number && other_tile <= tile.last)
          seen_pairs[token_in(tile, other)][token_in(tile, own)] = true;
      });
    EXPECT_TRUE(at::equal(found, allowed)) << "seed " << seed;
    EXPECT_TRUE(at::equal(seen.logical_and(allowed), allowed)) << "seed " << seed;
  }
}

// After a short tree a sequence of 1,100 tokens: its last tile of queries meets the most keys, its first tile
// of keys the most queries. Tiles with less than half as much work come later.
TEST(ForestAttention, TilesWithMuchWorkComeFirst) {
  const TreeTiles made = make_tree_tiles({0, 10, 110, 130, 1130}, {0, 20, 1020}, {0, 10, 110});
  const auto work_of_queries = [](const cuda::TreeTile& tile) {
    return tile.shared_end + tile.number + 1 - tile.own_begin;
  };
  const auto work_of_keys = [](const cuda::TreeTile& tile) { return tile.last + 1 - tile.number; };
  const auto check = [](std::span<const cuda::TreeTile> tiles, const auto& work) {
    ASSERT_EQ(tiles.size(), 19U);
    for (std::size_t i = 1; i < tiles.size(); ++i) EXPECT_LT(work(tiles[i]), 2 * work(tiles[i - 1])) << i;
    EXPECT_GE(2 * work(tiles.front()), 18);
    EXPECT_EQ(work(tiles.back()), 1);
  };
  check(tiles_in(made.query_tiles), work_of_queries);
  check(tiles_in(made.key_tiles), work_of_keys);
}

// Long enough that gradients are sums over many tiles, those of keys and values over four heads too.
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
