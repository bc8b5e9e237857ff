// Declares CUDA kernels for parts of layers, under the rules of kernels.h. Matrices are [rows, width],
// contiguous unless a stride is given. Sums over rows (weight gradients) take two stages without atomics, so
// that they have the same bits every time: `parts` float32 sums, [parts, sums, width], which are then added.
#pragma once

#include <cstdint>

#include "ops/activation_type.h"
#include "ops/cuda/kernels.h"

namespace dpo::cuda {

using ops::Activation;

constexpr int kMaxNorms = 2;

// Layer norm or RMS norm of the sum of two matrices, or of one matrix. Two norms with separate weights if the
// layer reads both. Statistics of a row are float32.
struct Norm {
  Type type = Type::float32;
  std::int64_t rows = 0, width = 0;
  bool is_layer_norm = false;  // else RMS norm, without mean and biases
  int norms = 1;
  float epsilon = 0;
  float weight_offset = 0;  // added to every weight
  const void* x = nullptr;
  const void* residual = nullptr;  // null: none
  void* sum = nullptr;             // x + residual; null without a residual
  const void* weights[kMaxNorms] = {};
  const void* biases[kMaxNorms] = {};  // may be null
  void* out[kMaxNorms] = {};
  float* mean = nullptr;  // [rows]; null for RMS norm
  float* rstd = nullptr;  // [rows]
};
bool supports_norm(std::int64_t width);
void norm(const Norm& norm, Stream stream);

struct NormGradient {
  Type type = Type::float32;
  std::int64_t rows = 0, width = 0;
  bool is_layer_norm = false;
  int norms = 1;
  float weight_offset = 0;
  const void* x = nullptr;  // input of the norms: x + residual
  const void* weights[kMaxNorms] = {};
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const void* grads[kMaxNorms] = {};  // gradients of the norms; null: zeros
  const void* grad_sum = nullptr;     // gradient of the sum; null: zeros
  void* grad_x = nullptr;
  std::int64_t parts = 0;
  float* partial = nullptr;      // [parts, sums, width]; each norm has two sums: weight, bias
  void* grad_weights = nullptr;  // [sums, width]
};
// Returns the number of parts. All fields must be set except `parts` and the fields whose size depends on it.
std::int64_t norm_parts(const NormGradient& gradient);
void norm_backward(const NormGradient& gradient, Stream stream);

// Computes activation(gate) * up. Rows of gate and up, and of their gradients, are `stride` elements apart,
// so that both may be halves of one matrix. The result and its gradient are contiguous.
struct Gated {
  Type type = Type::float32;
  Activation activation{};
  std::int64_t rows = 0, width = 0, stride = 0;
  const void* gate = nullptr;
  const void* up = nullptr;
  void* out = nullptr;
  const void* grad_out = nullptr;  // this and the following fields: backward pass only
  void* grad_gate = nullptr;
  void* grad_up = nullptr;
};
void gated(const Gated& gated, Stream stream);
void gated_backward(const Gated& gated, Stream stream);

// Computes activation(x + bias). The bias, [width], may be null.
struct BiasActivation {
  Type type = Type::float32;
  Activation activation{};
  std::int64_t rows = 0, width = 0;
  const void* x = nullptr;
  const void* bias = nullptr;
  std::int64_t parts = 0;  // number of parts that the rows are divided into
  void* out = nullptr;
  const void* grad_out = nullptr;  // this and the following fields: backward pass only
  void* grad_x = nullptr;
  float* partial = nullptr;   // [parts, width]
  void* grad_bias = nullptr;  // [width]; null without a bias
};
std::int64_t bias_parts(std::int64_t rows, std::int64_t width);
void bias_activation(const BiasActivation& call, Stream stream);
void bias_activation_backward(const BiasActivation& call, Stream stream);

// Sums the columns of a matrix whose rows are `stride` elements apart.
struct ColumnSums {
  Type type = Type::float32, sum_type = Type::float32;
  std::int64_t rows = 0, columns = 0, stride = 0;
  const void* matrix = nullptr;
  std::int64_t parts = 0;
  float* partial = nullptr;  // [parts, columns]
  void* sums = nullptr;      // [columns]
};
std::int64_t column_sum_parts(std::int64_t rows, std::int64_t columns);
void column_sums(const ColumnSums& call, Stream stream);

// Computes (a + b) + c of arrays, and rounds after each addition.
struct AddThree {
  Type type = Type::float32;
  std::int64_t count = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* out = nullptr;
};
void add_three(const AddThree& call, Stream stream);

// Adds the rows source_rows[starts[i]], ..., source_rows[starts[i + 1] - 1] of `in`, in this order, to row
// rows[i] of `out`. Rows of both are `width` wide and aligned to 32 bytes.
struct AddRowSums {
  Type in_type = Type::float32, out_type = Type::float32;
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t width = 0, sums = 0;
  const std::int32_t* rows = nullptr;    // [sums], all different
  const std::int32_t* starts = nullptr;  // [sums + 1]
  const std::int32_t* source_rows = nullptr;
};
bool supports_row_sums(std::int64_t width);
void add_row_sums(const AddRowSums& call, Stream stream);

constexpr int kHeadParts = 3, kRotatedParts = 2;

// Source and destination of queries, keys or values: heads within one matrix. Strides are in elements.
struct HeadPart {
  const void* from = nullptr;
  void* to = nullptr;
  int heads = 0;
  std::int64_t from_token = 0, from_head = 0, to_token = 0, to_head = 0;
};

// Rotates pairs of dimensions of queries and keys by the angles of their token, like Rotary, in place or from
// one place to another. In place, nothing else changes. Otherwise the other dimensions and the values are
// copied.
struct HeadRotation {
  Type type = Type::float32;
  std::int64_t tokens = 0, head_dim = 0;
  HeadPart parts[kHeadParts];  // queries, keys, values
  const float* cos = nullptr;  // [tokens, pairs]
  const float* sin = nullptr;
  std::int64_t pairs = 0;  // 0: nothing is rotated
  bool interleaved = false;
  float direction = 1;  // -1: the inverse rotation
};
void rotate_heads(const HeadRotation& rotation, Stream stream);

}  // namespace dpo::cuda
