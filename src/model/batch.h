#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "data/forest.h"
#include "model/tables/settings.h"
#include "ops/forest_attention.h"
#include "ops/log_probs.h"
#include "ops/row_sums.h"

namespace dpo::model {

// A forest as tensors on a device.
struct Batch {
  at::Tensor tokens;     // int64 [tokens]
  at::Tensor positions;  // int64 [tokens]
  at::Tensor lengths;    // int64 [tokens]: of the longest sequence of each token's tree
  std::shared_ptr<const ops::ForestLayout> layout;
  ops::RowSums token_sums;  // for the gradient of the embeddings that `tokens` selects

  // For the head; see data::Forest.
  at::Tensor rows;         // int64
  ops::RowSums row_sums;   // for the gradient of what `rows` selects
  at::Tensor targets;      // int64
  at::Tensor row_weights;  // float32; undefined: all 1
  ops::ResponseRows responses;
};

struct BatchOptions {
  // Keep every token, and their order. Else tokens after the last one of a response that the head reads, at
  // least its last, are left out, since nothing reads their hidden states; and a prompt with one response is
  // next to it.
  bool all_tokens = false;
  // Pad tokens and rows to multiples of this. Nothing reads the padding.
  std::int64_t multiple = 1;
};

// The multiple for a training pass over so many tokens. cuBLAS chooses a kernel for every new shape of a
// product, and tokens differ from batch to batch. On an H200 that takes longer than the products of a small
// model, and padding made Pythia-70M 1.8 times and Pythia-160M 1.15 times as fast; it is hidden behind those
// of a large one, where padding cost 1 to 3 % (Llama-3.2-1B, Pythia-2.8B).
std::int64_t padded_multiple(std::int64_t tokens, const ModelShape& shape, at::Device device);

// A token outside the vocabulary, or a sequence longer than the model's context, is a UserError. With experts
// no token is left out or added: a router's balance loss counts them all.
Batch make_batch(const data::Forest& forest, const ModelShape& shape, at::Device device,
                 const BatchOptions& options = {});

// The batch on another device.
Batch to_device(const Batch& batch, at::Device device);

}  // namespace dpo::model
