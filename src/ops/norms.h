#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/fused_layers.h"

namespace dpo::ops {

using fused::NormOptions, fused::NormWeights;

struct Normed {
  at::Tensor sum;               // x + residual, or x without a residual: use it instead of x
  std::vector<at::Tensor> out;  // one per norm
};

// Computes one or two layer norms or RMS norms of x + residual, or of x if `residual` is undefined. Two norms
// have separate weights. A GPU needs one pass over memory, and one for the gradients, which also adds the
// gradient of `sum`, on which the residual connection continues. x is [tokens, width]; a bias may be
// undefined. Statistics are float32. Differentiable.
Normed add_norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms,
                const NormOptions& options);

}  // namespace dpo::ops
