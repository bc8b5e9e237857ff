// Tensor parallelism: the ranks that hold the other parts of a block's matrices, and what is exchanged with
// them. Without partners each of these is the identity.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/weights.h"

namespace dpo::model {

// Where the part of a layer begins that ranks divide: every rank's gradient of x is one summand.
at::Tensor enter_divided(const BlockWeights& weights, const at::Tensor& x);

// Where it ends: x is one summand of every rank; the result is their sum.
at::Tensor leave_divided(const BlockWeights& weights, const at::Tensor& x);

// The sum over ranks of a tensor that autograd does not see, in place.
void sum_over_partners(const BlockWeights& weights, const at::Tensor& x);

// The row of the whole vocabulary's matrix that this rank's begins with; none without partners.
std::optional<std::int64_t> first_vocabulary_row(const BlockWeights& weights, std::int64_t vocabulary);

// Rows of the embedding of a vocabulary that ranks divide.
at::Tensor embed_tokens(const BlockWeights& weights, std::string_view name, const at::Tensor& tokens,
                        std::int64_t vocabulary);

// The log-sum-exp over the whole vocabulary from those over every rank's part, in place.
void combine_log_sums(const BlockWeights& weights, const at::Tensor& lse);

// The logits of the whole vocabulary, [rows, vocabulary], from those of every rank's part.
at::Tensor gather_logits(const BlockWeights& weights, const at::Tensor& logits, std::int64_t vocabulary);

}  // namespace dpo::model
