#pragma once

#include <ATen/core/Tensor.h>

#include "ops/activation_type.h"

namespace dpo::ops {

at::Tensor activate(const at::Tensor& x, Activation activation);

// Returns activation(gate) * up. On a GPU it is computed in float32 and rounded once. In the one-matrix form,
// [tokens, 2 * width], the gate is the first half, and the gradient is one matrix too. Differentiable.
at::Tensor gated_activation(const at::Tensor& gate_up, Activation activation);
at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, Activation activation);

// True if bias_activation() has a kernel for x. Otherwise the preceding matmul adds the bias faster.
bool fuses_bias_activation(const at::Tensor& x);

// Returns activation(x + bias), [tokens, width]; the bias may be undefined. The bias gradient is summed in
// float32. Differentiable.
at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, Activation activation);

}  // namespace dpo::ops
