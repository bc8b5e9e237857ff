#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Turns pairs of the first dimensions of every head by the angles of its token. x is [tokens, heads,
// head_dim]; cos and sin are float32 [tokens, pairs]. A pair is two neighbours, or one dimension of each half
// of those that are turned. Computed in float32 and rounded once. Differentiable.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved);

}  // namespace dpo::ops
