// Our own CUDA kernels (src/ops/cuda): one pass over memory where LibTorch's operators need several. Each
// returns false and does nothing if it does not support the tensors, or if the program was built without
// nvcc; the caller then uses LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention.h"
#include "ops/fp8.h"
#include "ops/head_rows.h"
#include "ops/row_sums.h"
#include "ops/small_matrix.h"
#include "ops/split_floats.h"

namespace dpo::ops::fused {

// Whether this program was built with them.
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

// Adds to rows of `to` the sums of rows of `from`.
bool add_row_sums(at::Tensor& to, const at::Tensor& from, const RowSums& sums);

bool from_small(at::Tensor& into, const SmallMatrix& matrix);

// Of a bfloat16 matrix; see ops/fp8.h.
bool fp8_rows(Fp8Matrix& result, const at::Tensor& matrix);
bool fp8_columns(Fp8Matrix& result, const at::Tensor& matrix);

// Updates of float32 (whole or in two parts) or bfloat16 weights, with float32 or 16-bit gradients. The names
// are those of torch.optim, except for weight decay: `l2` is added to the gradient, `decoupled` shrinks the
// weights.
struct UpdateArguments {
  double lr = 0, l2 = 0;
  double gradient_scale = 1;  // before anything else
  at::Tensor copy = {};       // receives the updated weights in its dtype, if defined
  std::uint64_t seed = 0;     // of stochastic rounding, and
  std::int64_t first = 0;     // the first element's number there (ops/state_math.h)
};

// Weights, or an array of optimizer state: float32 or 16-bit values, or codes of 8 bits with the largest
// magnitude of each group of kStateGroup and the 256 numbers that codes stand for. Weights may also be
// float32 in two parts, of which `values` is the first.
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
