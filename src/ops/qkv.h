#pragma once

#include <ATen/core/Tensor.h>

#include "ops/fused_layers.h"

namespace dpo::ops {

using fused::Heads;
using fused::RotaryAngles;

// Order of queries, keys and values in a layer's fused projection, [tokens, width]. By head: q, k and v of
// each head together, as in GPT-NeoX, where each head has its own keys. Otherwise: all queries, then all
// keys, then all values.
struct QkvLayout {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool by_head = false;
};

// Returns queries, keys and values as views of `qkv`, rotated if there are angles. A GPU rotates them in
// place, so `qkv` must not be used for anything else, and it writes their gradients into one matrix.
// Differentiable.
Heads rotated_heads(const at::Tensor& qkv, const QkvLayout& layout, const RotaryAngles& angles);

}  // namespace dpo::ops
