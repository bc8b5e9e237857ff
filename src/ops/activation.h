#pragma once

#include <ATen/core/Tensor.h>

#include "ops/fused_layers.h"

namespace dpo::ops {

using fused::Activation;

at::Tensor activate(const at::Tensor& x, Activation activation);

// activation(gate) * up, computed in float32 and rounded once on a GPU. Of one matrix, [tokens, 2 * width],
// the gate is the first half; its gradient is one matrix too. Differentiable.
at::Tensor gated_activation(const at::Tensor& gate_up, Activation activation);
at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, Activation activation);

// Whether bias_activation() has a kernel for x. Elsewhere a bias is better added by the product before it.
bool fuses_bias_activation(const at::Tensor& x);

// activation(x + bias), [tokens, width]; the bias may be undefined. Its gradient is summed in float32.
// Differentiable.
at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, Activation activation);

}  // namespace dpo::ops
