#pragma once

#include <ATen/core/Tensor.h>

#include "ops/fused_layers.h"

namespace dpo::ops {

using fused::Heads;
using RotaryAngles = fused::Angles;

// How the product of a layer's fused matrix, [tokens, width], has queries, keys and values: those of a head
// together (GPT-NeoX, where each head has its own keys), or first all queries, then all keys, then all
// values.
struct QkvLayout {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool by_head = false;
};

// Queries, keys and values as views of the product, rotated if there are angles. A GPU rotates them in place,
// so the product must not be used for anything else, and writes their gradients into one matrix.
// Differentiable.
Heads rotated_heads(const at::Tensor& qkv, const QkvLayout& layout, const RotaryAngles& angles);

}  // namespace dpo::ops
