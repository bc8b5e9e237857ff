// Declares the communication within a rank's tensor-parallel group. Without a group none of these functions
// communicates.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace dpo::model {

// Begins the sharded part of a layer (Megatron's copy_to_tensor_model_parallel_region): the identity, whose
// backward pass sums the gradient over ranks.
at::Tensor copy_to_tensor_parallel(const BlockWeights& weights, const at::Tensor& x);

// Ends the sharded part of a layer (Megatron's reduce_from_tensor_model_parallel_region): sums x over ranks.
// Its backward pass is the identity.
at::Tensor reduce_from_tensor_parallel(const BlockWeights& weights, const at::Tensor& x);

// Sums x over ranks in place, outside autograd.
void all_reduce_over_tensor_group(const BlockWeights& weights, const at::Tensor& x);

// Returns the first row of this rank's shard of the vocabulary, or nullopt without a group.
std::optional<std::int64_t> first_vocabulary_row(const BlockWeights& weights, std::int64_t vocabulary);

// Looks up the embeddings of tokens, also if ranks shard the vocabulary.
at::Tensor embed_tokens(const BlockWeights& weights, std::string_view name, const Context& context,
                        std::int64_t vocabulary);

// Combines the log-sum-exps over every rank's shard into that over the whole vocabulary, in place.
void combine_lse(const BlockWeights& weights, const at::Tensor& lse);

// Returns the logits of the whole vocabulary, [rows, vocabulary], from those of every rank's shard.
at::Tensor gather_logits(const BlockWeights& weights, const at::Tensor& logits, std::int64_t vocabulary);

}  // namespace dpo::model
