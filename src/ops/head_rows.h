// Log-softmax of rows of logits at their targets, and its gradient: one pass over each row in the precision
// of the logits, by a loop on the CPU and a kernel of our own on a GPU. LibTorch's operators, which read the
// whole vocabulary six or seven times and hold it in float32, are used for other dtypes and without nvcc.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// cap * tanh(x / cap), in float32 or better; x itself if cap is 0. x may be overwritten.
at::Tensor capped(const at::Tensor& x, double cap);

// Whether 16-bit logits of this dtype are read as they are; else a float32 copy is made.
bool reads_16_bit_rows(at::Device device, at::ScalarType dtype, double cap);

// All are [rows], float32 or better.
struct RowScores {
  at::Tensor lse, log_probs;
  at::Tensor entropy;      // undefined unless requested
  bool only_read = false;  // the logits were not overwritten
};

// `logits` are [rows, vocabulary], `targets` int64 [rows], and the capped logits count if `cap` is not 0.
// Here and below the logits may be overwritten, and those of 16 bits are freed if float32 is needed.
RowScores score_rows(at::Tensor logits, const at::Tensor& targets, bool with_entropy, double cap = 0);

// The same of a shard of the vocabulary that begins with `first_row`: the log-sum-exp over the shard, and the
// logits of the targets, 0 where another rank has them. Combined over ranks, their difference is the
// log-probability.
struct ShardScores {
  at::Tensor lse, target_logits;
};
ShardScores score_shard_rows(at::Tensor logits, const at::Tensor& targets, std::int64_t first_row,
                             double cap = 0);

// The gradient of sum(scale * log_prob(target)) by the logits (before the cap), without a cap
// scale * (one_hot(target) - softmax(row)), given the log-sum-exp over the whole vocabulary. `first_row`: of
// a shard, if it is one.
at::Tensor score_rows_backward(at::Tensor logits, const at::Tensor& targets, const at::Tensor& lse,
                               const at::Tensor& scale, std::optional<std::int64_t> first_row = {},
                               double cap = 0);

}  // namespace dpo::ops
