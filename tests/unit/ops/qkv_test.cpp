#include "ops/qkv.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/rotary.h"
#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

// Returns heads [tokens, count, head_dim] from column `begin` on, `distance` columns apart.
at::Tensor heads_at(const at::Tensor& qkv, std::int64_t begin, std::int64_t count, std::int64_t distance,
                    std::int64_t head_dim) {
  std::vector<at::Tensor> heads;
  for (std::int64_t h = 0; h < count; ++h) heads.push_back(qkv.narrow(1, begin + h * distance, head_dim));
  return at::stack(heads, 1);
}

Heads expected_heads(const at::Tensor& qkv, const QkvLayout& l, const RotaryAngles& angles) {
  const std::int64_t d = l.head_dim;
  Heads heads;
  if (l.by_head)
    heads = {heads_at(qkv, 0, l.heads, 3 * d, d), heads_at(qkv, d, l.heads, 3 * d, d),
             heads_at(qkv, 2 * d, l.heads, 3 * d, d)};
  else
    heads = {heads_at(qkv, 0, l.heads, d, d), heads_at(qkv, l.heads * d, l.kv_heads, d, d),
             heads_at(qkv, (l.heads + l.kv_heads) * d, l.kv_heads, d, d)};
  if (!angles.cos.defined()) return heads;
  heads.q = apply_rotary(heads.q, angles.cos, angles.sin, angles.interleaved);
  heads.k = apply_rotary(heads.k, angles.cos, angles.sin, angles.interleaved);
  return heads;
}

void check_heads(const at::TensorOptions& options, const QkvLayout& layout, std::int64_t pairs,
                 bool interleaved, double tolerance, std::int64_t tokens = 5) {
  const std::int64_t all = layout.heads + 2 * layout.kv_heads;
  const at::Tensor leaf = at::randn({tokens, all * layout.head_dim}, options).requires_grad_();
  const at::Tensor turns = at::rand({tokens, pairs}, options.dtype(at::kFloat)) * 6;
  const RotaryAngles angles =
      pairs > 0 ? RotaryAngles{turns.cos(), turns.sin(), interleaved} : RotaryAngles{};
  const Heads expected = expected_heads(leaf, layout, angles);
  const Heads found = rotated_heads(leaf.clone(), layout, angles);
  const std::vector<at::Tensor> outputs = {found.q, found.k, found.v};
  const std::vector<at::Tensor> wanted = {expected.q, expected.k, expected.v};
  std::vector<at::Tensor> grads;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LE(relative_error(outputs[i], wanted[i]), tolerance) << "part " << i << ", pairs " << pairs;
    grads.push_back(at::randn(wanted[i].sizes(), options));
  }
  const at::Tensor back = torch::autograd::grad(outputs, {leaf}, grads)[0];
  const at::Tensor wanted_back = torch::autograd::grad(wanted, {leaf}, grads)[0];
  EXPECT_LE(relative_error(back, wanted_back), tolerance) << "pairs " << pairs;
}

void check_all_heads(const at::TensorOptions& options, double tolerance) {
  for (const QkvLayout& layout : {QkvLayout{3, 3, 80, true}, QkvLayout{4, 2, 64, false},
                                  QkvLayout{6, 1, 10, false}, QkvLayout{2, 2, 6, true}})
    for (const bool interleaved : {false, true})
      for (const std::int64_t pairs :
           {std::int64_t{0}, std::int64_t{1}, layout.head_dim / 8, layout.head_dim / 2})
        check_heads(options, layout, pairs, interleaved, tolerance);
}

// Checks layouts of real models, and pairs that do not fill a pack of 16 bytes.
void check_more_heads(const at::TensorOptions& options, double tolerance) {
  for (const QkvLayout& layout :
       {QkvLayout{32, 32, 80, true}, QkvLayout{5, 1, 96, false}, QkvLayout{3, 3, 22, true},
        QkvLayout{16, 16, 64, true}, QkvLayout{40, 8, 128, false}})
    for (const std::int64_t pairs :
         {std::int64_t{8}, std::int64_t{10}, std::int64_t{12}, layout.head_dim / 2})
      if (2 * pairs <= layout.head_dim) check_heads(options, layout, pairs, false, tolerance, 67);
}

TEST(RotatedHeads, AreThoseOfSeparateMatrices) {
  check_all_heads(at::kFloat, 0);
  check_all_heads(at::kBFloat16, 0);
  check_more_heads(at::kBFloat16, 0);
}

TEST(RotatedHeads, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_all_heads(at::TensorOptions(at::kCUDA).dtype(at::kFloat), 1e-6);
  check_all_heads(at::TensorOptions(at::kCUDA).dtype(at::kBFloat16), 4e-3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    check_more_heads(at::TensorOptions(at::kCUDA).dtype(type), type == at::kFloat ? 1e-6 : 4e-3);
}

}  // namespace
}  // namespace dpo::ops
