// Tensor parallelism: what a rank exchanges with the others of its tensor-parallel group. Without a group
// each of these is the identity.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace dpo::model {

// Before the sharded part of a layer (Megatron's copy_to_tensor_model_parallel_region): the identity, whose
// backward pass sums the gradient over ranks.
at::Tensor copy_to_tensor_parallel(const BlockWeights& weights, const at::Tensor& x);

// After it (Megatron's reduce_from_tensor_model_parallel_region): the sum of x over ranks, whose backward
// pass is the identity.
at::Tensor reduce_from_tensor_parallel(const BlockWeights& weights, const at::Tensor& x);

// The sum over ranks in place, outside autograd.
void all_reduce_over_tensor_group(const BlockWeights& weights, const at::Tensor& x);

// The first row of this rank's shard of the vocabulary; none without a group.
std::optional<std::int64_t> first_vocabulary_row(const BlockWeights& weights, std::int64_t vocabulary);

// Embeddings of tokens, where ranks shard the vocabulary.
at::Tensor embed_tokens(const BlockWeights& weights, std::string_view name, const Context& context,
                        std::int64_t vocabulary);

// The log-sum-exp over the whole vocabulary from those over every rank's shard, in place.
void combine_lse(const BlockWeights& weights, const at::Tensor& lse);

// The logits of the whole vocabulary, [rows, vocabulary], from those of every rank's shard.
at::Tensor gather_logits(const BlockWeights& weights, const at::Tensor& logits, std::int64_t vocabulary);

}  // namespace dpo::model
