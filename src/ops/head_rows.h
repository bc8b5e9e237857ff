// Log-softmax of rows of logits at their targets, and its gradient. A CPU loop or our own GPU kernel makes
// one pass over each row in the precision of the logits. Other dtypes and builds without nvcc use LibTorch's
// operators, which read the whole vocabulary six or seven times and hold it in float32.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Returns cap * tanh(x / cap) in float32 or better, or x itself if cap is 0. x may be overwritten.
at::Tensor capped(const at::Tensor& x, double cap);

// True if 16-bit logits of this dtype are read directly. Otherwise a float32 copy is made.
bool reads_16_bit_rows(at::Device device, at::ScalarType dtype, double cap);

// Scores of rows; every tensor is [rows], float32 or better.
struct RowScores {
  at::Tensor lse, log_probs;
  at::Tensor entropy;      // undefined unless requested
  bool only_read = false;  // the logits were not overwritten
};

// Scores `logits`, [rows, vocabulary], at `targets`, int64 [rows]. If `cap` is not 0, the logits are capped
// first. Here and below the logits may be overwritten, and 16-bit logits are freed if float32 is needed.
RowScores score_rows(at::Tensor logits, const at::Tensor& targets, bool with_entropy, double cap = 0);

// Scores of one vocabulary shard, which begins with row `first_row`: the log-sum-exp over the shard, and the
// logits of the targets, 0 for targets of other ranks. After both are combined over ranks, their difference
// is the log-probability.
struct ShardScores {
  at::Tensor lse, target_logits;
};
ShardScores score_shard_rows(at::Tensor logits, const at::Tensor& targets, std::int64_t first_row,
                             double cap = 0);

// Returns the gradient of sum(scale * log_prob(target)) with respect to the logits before the cap. Without a
// cap it is scale * (one_hot(target) - softmax(row)). `lse` is over the whole vocabulary. `first_row` is set
// for a shard.
at::Tensor score_rows_backward(at::Tensor logits, const at::Tensor& targets, const at::Tensor& lse,
                               const at::Tensor& scale, std::optional<std::int64_t> first_row = {},
                               double cap = 0);

}  // namespace dpo::ops
