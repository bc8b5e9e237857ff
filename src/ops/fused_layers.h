// Our own CUDA kernels of the layers' parts. A caller first asks whether the tensors are supported (never
// without nvcc), and otherwise uses LibTorch's operators.
#pragma once

#include <array>
#include <vector>

#include <ATen/core/Tensor.h>

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
  at::Tensor sum;               // of x and residual; x itself without one
  std::vector<at::Tensor> out;  // of every norm
  at::Tensor mean, rstd;        // float32 [rows]; the mean of layer norms only
};

struct NormGradients {
  at::Tensor x;
  std::vector<NormWeights> weights;  // of every norm
};

// x and residual, which may be undefined, are [rows, width], as are the gradients. One or two norms.
bool supports_norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms);
NormResult norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms,
                const NormOptions& options);
// `grads`: of every norm; these and `grad_sum` may be undefined, which stands for zeros.
NormGradients norm_backward(const NormResult& forward, const std::vector<NormWeights>& norms,
                            const NormOptions& options, const at::Tensor& grad_sum,
                            const std::vector<at::Tensor>& grads);

enum class Activation { gelu, gelu_tanh, relu, silu };

// Gate and up of a gated MLP, [rows, width] with contiguous rows; they may be halves of one matrix.
struct GateUp {
  at::Tensor gate, up;
};

// activation(gate) * up.
bool supports_gated(const GateUp& in);
at::Tensor gated(const GateUp& in, Activation activation);
void gated_backward(const GateUp& in, Activation activation, const at::Tensor& grad, const GateUp& grad_in);

struct BiasGradients {
  at::Tensor x, bias;
};

// activation(x + bias), of a contiguous x [rows, width].
bool supports_bias_activation(const at::Tensor& x, const at::Tensor& bias);
at::Tensor activate_with_bias(const at::Tensor& x, const at::Tensor& bias, Activation activation);
BiasGradients activate_with_bias_backward(const at::Tensor& x, const at::Tensor& bias, Activation activation,
                                          const at::Tensor& grad);

// The sums of the columns of a matrix with contiguous rows, in another dtype if wanted.
bool supports_column_sums(const at::Tensor& matrix, at::ScalarType dtype);
at::Tensor column_sums(const at::Tensor& matrix, at::ScalarType dtype);

// (a + b) + c of contiguous tensors of one shape, rounded after each addition.
bool supports_add_three(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c);
at::Tensor add_three(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c);

// Queries, keys and values, [tokens, heads, head_dim]; keys and values may have fewer heads.
struct Heads {
  at::Tensor q, k, v;
};

// Of every token, float32 [tokens, pairs]; undefined: no rotation.
struct Angles {
  at::Tensor cos, sin;
  bool interleaved = false;
};

// Rotates queries and keys in place.
bool supports_rotation(const Heads& heads, const Angles& angles);
void rotate_heads(const Heads& heads, const Angles& angles);
// Writes `from`, with queries and keys rotated back, to `to`.
void rotate_heads_back(const Heads& from, const Angles& angles, const Heads& to);

}  // namespace dpo::ops::fused
