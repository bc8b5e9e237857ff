// Declares our own CUDA kernels (src/ops/cuda), which need one pass over memory where LibTorch's operators
// need several. Callers first ask whether the tensors are supported, and otherwise use LibTorch's operators.
// Without nvcc nothing is supported.
#pragma once

#include <span>

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

bool supports_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);
at::Tensor apply_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved,
                        float direction);

// Merges `other` into `one`.
bool supports_merge(const AttentionOutput& one, const AttentionOutput& other);
void merge(AttentionOutput& one, const AttentionOutput& other);

// See ops/head_rows.h; `first_row` is 0 for the whole vocabulary.
bool supports_scoring(const at::Tensor& logits, const at::Tensor& targets);
RowScores score_rows(const at::Tensor& logits, const at::Tensor& targets, bool with_entropy, double cap);
ShardScores score_shard_rows(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first_row,
                             double cap);
// Turns the logits into their gradient.
bool supports_scoring_backward(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                               const at::Tensor& scale);
void score_rows_backward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                         const at::Tensor& scale, std::int64_t first_row, double cap);

// Adds sums of rows of `from` to rows of `to`.
bool supports_row_sums(const at::Tensor& to, const at::Tensor& from);
void add_row_sums(at::Tensor& to, const at::Tensor& from, const RowSums& sums);

bool supports_dequantize(const at::Tensor& into);
void dequantize(at::Tensor& into, const QuantizedMatrix& matrix);

// Quantize a bfloat16 matrix; see ops/fp8.h.
bool supports_fp8_rows(const at::Tensor& matrix);
Fp8Matrix fp8_rows(const at::Tensor& matrix);
bool supports_fp8_columns(const at::Tensor& matrix);
Fp8Matrix fp8_columns(const at::Tensor& matrix);

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

// `copy` may be undefined.
bool supports_update(const StoredArray& weights, const at::Tensor& gradients,
                     std::span<const StoredArray> state, const at::Tensor& copy);

struct AdamArguments : UpdateArguments {
  double decoupled = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  std::int64_t step = 1;
};
void adam(const StoredArray& weights, const at::Tensor& gradients, const StoredArray& exp_avg,
          const StoredArray& exp_avg_sq, const AdamArguments& arguments);

struct RmsPropArguments : UpdateArguments {
  double alpha = 0, epsilon = 0;
};
void rmsprop(const StoredArray& weights, const at::Tensor& gradients, const StoredArray& square_avg,
             const RmsPropArguments& arguments);

// Write the time when the current stream gets here to `time`, an int64 on a GPU, and make the stream wait
// until `seconds` after that time.
bool mark_time(const at::Tensor& time);
bool wait_since(const at::Tensor& time, double seconds);

}  // namespace dpo::ops::fused
