// CUDA kernels of the layers' parts, as in kernels.h. Matrices are [rows, width], contiguous unless a stride
// is given. Sums over rows (the gradients of weights) are computed in two stages, without atomics, so that
// they have the same bits every time: `parts` of them in float32, [parts, sums, width], which are then added.
#pragma once

#include <cstdint>

#include "ops/cuda/kernels.h"

namespace dpo::cuda {

constexpr int kMaxNorms = 2;

// Layer norm or RMS norm of the sum of two matrices, or of one; two norms with weights of their own if the
// layer reads both. The statistics of a row are float32.
struct Norm {
  Type type = Type::float32;
  std::int64_t rows = 0, width = 0;
  bool is_layer_norm = false;  // else RMS norm, without mean and biases
  int norms = 1;
  float epsilon = 0;
  float weight_offset = 0;  // added to every weight
  const void* x = nullptr;
  const void* residual = nullptr;  // null: none
  void* sum = nullptr;             // of x and residual; null without one
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
  const void* x = nullptr;  // what was normed: the sum
  const void* weights[kMaxNorms] = {};
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const void* grads[kMaxNorms] = {};  // of the norms; null: zeros
  const void* grad_sum = nullptr;     // of the sum itself; null: zeros
  void* grad_x = nullptr;
  std::int64_t parts = 0;
  float* partial = nullptr;      // [parts, sums, width], where every norm has two sums: weight, bias
  void* grad_weights = nullptr;  // [sums, width]
};
std::int64_t norm_parts(std::int64_t rows, std::int64_t width);
void norm_backward(const NormGradient& gradient, Stream stream);

}  // namespace dpo::cuda
