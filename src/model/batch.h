#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/forest.h"
#include "model/tables/settings.h"
#include "ops/forest_attention.h"

namespace dpo::model {

// A forest as tensors on a device.
struct Batch {
  at::Tensor tokens;     // int64 [tokens]
  at::Tensor positions;  // int64 [tokens]
  at::Tensor lengths;    // int64 [tokens]: of the longest sequence of each token's tree
  std::shared_ptr<const ops::ForestLayout> layout;

  // For the head; see data::Forest. Rows after those of the last response are padding.
  at::Tensor rows;         // int64
  at::Tensor targets;      // int64
  at::Tensor row_weights;  // float32; undefined: all 1
  std::vector<std::int32_t> row_starts;
};

struct BatchOptions {
  // Keep every token, and their order. Else tokens after the last one of a response that the head reads, at
  // least its last, are left out, since nothing reads their hidden states; and a prompt with one response is
  // next to it.
  bool all_tokens = false;
  // Pad tokens and rows to multiples of this. Nothing reads the padding.
  std::int64_t multiple = 1;
};

// cuBLAS chooses a kernel for each new shape of a product, which takes as long as a small product itself, and
// tokens differ from batch to batch. Products compute tiles of this many rows anyway.
inline constexpr std::int64_t kTileRows = 128;

// A token outside the vocabulary, or a sequence longer than the model's context, is a UserError. With experts
// no token is left out or added: a router's balance loss counts them all.
Batch make_batch(const data::Forest& forest, const ModelShape& shape, at::Device device,
                 const BatchOptions& options = {});

// The batch on another device.
Batch to_device(const Batch& batch, at::Device device);

}  // namespace dpo::model
