// Declares our own CUDA kernels for parts of layers. Callers first ask whether the tensors are supported, and
// otherwise use LibTorch's operators. Without nvcc nothing is supported.
#pragma once

#include <array>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/activation_type.h"

namespace dpo::ops::fused {

// Weight and bias of a norm; the bias may be undefined.
struct NormWeights {
  at::Tensor weight, bias;
};

struct NormOptions {
  bool is_layer_norm = false;  // else RMS norm
  double epsilon = 0;
  double weight_offset = 0;  // added to every weight
};

struct NormResult {
  at::Tensor sum;               // x + residual; x itself without a residual
  std::vector<at::Tensor> out;  // one per norm
  at::Tensor mean, rstd;        // float32 [rows]; layer norms only: mean
};

struct NormGradients {
  at::Tensor x;
  std::vector<NormWeights> weights;  // one per norm
};

// One or two norms of x + residual. x and residual (may be undefined) are [rows, width], as are the
// gradients.
bool supports_norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms);
NormResult norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms,
                const NormOptions& options);
// `grads` has one gradient per norm. An undefined gradient, also `grad_sum`, stands for zeros.
NormGradients norm_backward(const NormResult& forward, const std::vector<NormWeights>& norms,
                            const NormOptions& options, const at::Tensor& grad_sum,
                            const std::vector<at::Tensor>& grads);

// Gate and up of a gated MLP, [rows, width] with contiguous rows. They may be halves of one matrix.
struct GateUp {
  at::Tensor gate, up;
};

// Computes activation(gate) * up.
bool supports_gated(const GateUp& in);
at::Tensor gated(const GateUp& in, Activation activation);
void gated_backward(const GateUp& in, Activation activation, const at::Tensor& grad, const GateUp& grad_in);

struct BiasGradients {
  at::Tensor x, bias;
};

// Computes activation(x + bias) for a contiguous x, [rows, width].
bool supports_bias_activation(const at::Tensor& x, const at::Tensor& bias);
at::Tensor activate_with_bias(const at::Tensor& x, const at::Tensor& bias, Activation activation);
BiasGradients activate_with_bias_backward(const at::Tensor& x, const at::Tensor& bias, Activation activation,
                                          const at::Tensor& grad);

// Sums the columns of a matrix with contiguous rows; `dtype` may differ from the matrix's.
bool supports_column_sums(const at::Tensor& matrix, at::ScalarType dtype);
at::Tensor column_sums(const at::Tensor& matrix, at::ScalarType dtype);

// Computes (a + b) + c for contiguous tensors of one shape, and rounds after each addition.
bool supports_add_three(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c);
at::Tensor add_three(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c);

// Queries, keys and values, [tokens, heads, head_dim]. Keys and values may have fewer heads.
struct Heads {
  at::Tensor q, k, v;
};

// Rotation angles of every token, float32 [tokens, pairs]. Undefined: no rotation.
struct RotaryAngles {
  at::Tensor cos, sin;
  bool interleaved = false;
};

// Rotates queries and keys in place.
bool supports_rotation(const Heads& heads, const RotaryAngles& angles);
void rotate_heads(const Heads& heads, const RotaryAngles& angles);
// Writes `from`, with queries and keys rotated back, to `to`.
void rotate_heads_back(const Heads& from, const RotaryAngles& angles, const Heads& to);

}  // namespace dpo::ops::fused
