// Log-softmax of rows of logits at their targets, and its gradient. On the CPU it is one pass
// over each row, where LibTorch's operators would read the whole vocabulary six or seven times and hold it in
// float32; elsewhere, and for a vocabulary that is sharded over ranks, it is those operators.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// All are [rows], float32 or better.
struct RowScores {
  at::Tensor lse, log_probs;
  at::Tensor entropy;  // undefined unless requested
};

// `logits` are [rows, vocabulary], `targets` int64 [rows]. Here and below the logits may be overwritten, and
// those of 16 bits are freed once they are float32.
RowScores score_rows(at::Tensor logits, const at::Tensor& targets, bool with_entropy);

// The same of a shard of the vocabulary that begins with `first_row`: the log-sum-exp over the shard, and the
// logits of the targets, 0 where another rank has them. Combined over ranks, their difference is the
// log-probability.
struct ShardScores {
  at::Tensor lse, target_logits;
};
ShardScores score_shard_rows(at::Tensor logits, const at::Tensor& targets, std::int64_t first_row);

// The gradient of sum(scale * log_prob(target)) by the logits, scale * (one_hot(target) - softmax(row)),
// given the log-sum-exp over the whole vocabulary. `first_row`: of a shard, if it is one.
at::Tensor score_rows_backward(at::Tensor logits, const at::Tensor& targets, const at::Tensor& lse,
                               const at::Tensor& scale, std::optional<std::int64_t> first_row = {});

}  // namespace dpo::ops
