#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "data/forest.h"
#include "model/spec/settings.h"
#include "ops/forest_attention.h"
#include "ops/log_probs.h"
#include "ops/row_sums.h"

namespace dpo::model {

// A forest as tensors on a device.
struct Batch {
  at::Tensor tokens;     // int64 [tokens]
  at::Tensor positions;  // int64 [tokens]
  at::Tensor lengths;    // int64 [tokens], length of the longest sequence of each token's tree
  std::shared_ptr<const ops::ForestLayout> layout;  // null for tokens that do not attend over a forest
  ops::RowSums token_sums;  // for the gradient of the embedding rows that `tokens` selects

  // Inputs of the head; see data::Forest.
  at::Tensor rows;         // int64
  ops::RowSums row_sums;   // for the gradient of the hidden states that `rows` selects
  at::Tensor targets;      // int64
  at::Tensor row_weights;  // float32; undefined: all 1
  ops::ResponseRows responses;
};

struct BatchOptions {
  // Keeps every token, in order. Otherwise the tokens of a response after the last one that the head reads
  // (at least the last token) are left out, since nothing reads their hidden states, and a prompt with one
  // response is placed next to it.
  bool all_tokens = false;
  // Tokens and rows are padded to multiples of this. Nothing reads the padding.
  std::int64_t multiple = 1;
};

// Returns the multiple to pad a training pass over this many tokens to. cuBLAS chooses a kernel for every new
// matmul shape, and the number of tokens differs from batch to batch. On an H200 that choice takes longer
// than the matmuls of a small model: padding made Pythia-70M 1.8 times and Pythia-160M 1.15 times as fast.
// The matmuls of a large model hide it, and padding cost 1 to 3 % there (Llama-3.2-1B, Pythia-2.8B).
std::int64_t padded_multiple(std::int64_t tokens, const ModelShape& shape, at::Device device);

// Converts a forest to tensors on a device. Throws a UserError if a token is outside the vocabulary or a
// sequence is longer than the model's context. With experts no token is left out or added, because a router's
// balance loss counts them all.
Batch make_batch(const data::Forest& forest, const ModelShape& shape, at::Device device,
                 const BatchOptions& options = {});

// Returns the batch on another device.
Batch to_device(const Batch& batch, at::Device device);

}  // namespace dpo::model
