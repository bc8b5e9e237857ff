// Rows of logits on the CPU, one pass over each: LibTorch's operators would go over the whole vocabulary six
// or seven times and keep it in float32.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Whether the functions below know these logits: bfloat16 or float32 on the CPU.
bool knows_rows(const at::Tensor& logits);

// Of each row of `logits`: the logarithm of the sum of exponentials, and the log-probability of its target.
// Both results are float32.
void score_rows(const at::Tensor& logits, const at::Tensor& targets, at::Tensor lse, at::Tensor log_probs);

// Turns each row into scale * (one_hot(target) - softmax(row)), the gradient of scale * log_prob(target).
void differentiate_rows(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                        const at::Tensor& scale);

}  // namespace dpo::ops
