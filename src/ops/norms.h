#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/fused_layers.h"

namespace dpo::ops {

using fused::NormOptions, fused::NormWeights;

struct Normed {
  at::Tensor sum;               // x + residual; without one, x: use it instead of x
  std::vector<at::Tensor> out;  // its norms
};

// Layer norms or RMS norms of x + residual, or of x alone if `residual` is undefined: one, or two with
// weights of their own. A GPU computes them in one pass over memory, and so their gradients, including the
// addition of that of `sum`, on which the residual connection continues. x is [tokens, width]; a bias may be
// undefined. Statistics are float32. Differentiable.
Normed add_norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms,
                const NormOptions& options);

}  // namespace dpo::ops
