// Log-softmax of rows of logits on the CPU, one pass over each: LibTorch's operators would read the whole
// vocabulary six or seven times and hold it in float32.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Whether the functions below support these logits: contiguous bfloat16 or float32 on the CPU.
bool supports_rows(const at::Tensor& logits);

// The log-sum-exp of each row of `logits`, and the log-probability of its target. Both are float32.
void score_rows(const at::Tensor& logits, const at::Tensor& targets, at::Tensor lse, at::Tensor log_probs);

// In place: each row becomes scale * (one_hot(target) - softmax(row)), the gradient of scale *
// log_prob(target).
void score_rows_backward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                         const at::Tensor& scale);

}  // namespace dpo::ops
