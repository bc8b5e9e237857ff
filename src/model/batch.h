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

  // For the head; see data::Forest.
  at::Tensor rows;         // int64
  at::Tensor targets;      // int64
  at::Tensor row_weights;  // float32; undefined: all 1
  std::vector<std::int32_t> row_starts;
};

// A token outside the vocabulary, or a sequence longer than the model's context, is a UserError. Tokens after
// the last one of a response that the head reads, at least its last, are left out unless `all_tokens`:
// nothing reads their hidden states. A router's balance loss would count them, so with experts they stay.
// `all_tokens` also keeps the forest's order; else a prompt with one response may be next to it.
Batch make_batch(const data::Forest& forest, const ModelShape& shape, at::Device device,
                 bool all_tokens = false);

// The batch on another device.
Batch to_device(const Batch& batch, at::Device device);

}  // namespace dpo::model
