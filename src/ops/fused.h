// Declares our own CUDA kernels (src/ops/cuda), which need one pass over memory where LibTorch's operators
// need several. Each function returns false and does nothing if it does not support the tensors, or if the
// program was built without nvcc. The caller then uses LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention.h"
#include "ops/fp8.h"
#include "ops/head_rows.h"
#include "ops/quantized_matrix.h"
#include "ops/row_sums.h"
#include "ops/split_floats.h"

namespace dpo::ops::fused {

// True if this program was built with the kernels.
bool has_kernels();

bool apply_rotary(at::Tensor& out, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  bool interleaved, float direction);

bool merge(AttentionOutput& one, const AttentionOutput& other);

// See ops/head_rows.h; `first_row` is 0 for the whole vocabulary.
bool score_rows(RowScores& scores, const at::Tensor& logits, const at::Tensor& targets, bool with_entropy,
                double cap);
bool score_shard_rows(ShardScores& scores, const at::Tensor& logits, const at::Tensor& targets,
                      std::int64_t first_row, double cap);
bool score_rows_backward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                         const at::Tensor& scale, std::int64_t first_row, double cap);

// Adds sums of rows of `from` to rows of `to`.
bool add_row_sums(at::Tensor& to, const at::Tensor& from, const RowSums& sums);

bool dequantize(at::Tensor& into, const QuantizedMatrix& matrix);

// Quantize a bfloat16 matrix; see ops/fp8.h.
bool fp8_rows(Fp8Matrix& result, const at::Tensor& matrix);
bool fp8_columns(Fp8Matrix& result, const at::Tensor& matrix);

// Arguments of an optimizer step on float32 (whole or split in two) or bfloat16 weights with float32 or
// 16-bit gradients. Names follow torch.optim except for weight decay: `l2` is added to the gradient,
// `decoupled` shrinks the weights.
struct UpdateArguments {
  double lr = 0, l2 = 0;
  double gradient_scale = 1;  // applied before anything else
  at::Tensor copy = {};       // receives the updated weights in its dtype, if defined
  std::uint64_t seed = 0;     // of stochastic rounding
  std::int64_t first = 0;     // index of the first element in stochastic rounding (ops/state_math.h)
};

// Weights, or an array of optimizer state. Values are float32 or 16 bits, or 8-bit codes with the largest
// magnitude of each group of kStateGroup and the 256 numbers that codes stand for. Weights may also be
// float32 split in two, with the first part in `values`.
struct StoredArray {
  at::Tensor values;
  at::Tensor absmax = {}, map = {};
  FloatRest rest = {};
};

struct AdamArguments : UpdateArguments {
  double decoupled = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  std::int64_t step = 1;
};
bool adam(const StoredArray& weights, const at::Tensor& gradients, const StoredArray& exp_avg,
          const StoredArray& exp_avg_sq, const AdamArguments& arguments);

struct RmsPropArguments : UpdateArguments {
  double alpha = 0, epsilon = 0;
};
bool rmsprop(const StoredArray& weights, const at::Tensor& gradients, const StoredArray& square_avg,
             const RmsPropArguments& arguments);

}  // namespace dpo::ops::fused
