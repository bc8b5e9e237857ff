#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Applies rotary position embedding: rotates pairs of the first dimensions of every head by the angles of its
// token. x is [tokens, heads, head_dim]; cos and sin are float32 [tokens, pairs]. A pair is two adjacent
// dimensions if `interleaved`, otherwise one from each half of the rotated ones. Computed in float32 and
// rounded once. Differentiable.
at::Tensor apply_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved);

}  // namespace dpo::ops
