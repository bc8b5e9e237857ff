#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/forest.h"
#include "model/tables/settings.h"
#include "ops/forest_attention.h"

namespace dpo::model {

// A forest where a model computes.
struct Batch {
  at::Tensor tokens;     // int64 [tokens]
  at::Tensor positions;  // int64 [tokens]
  std::shared_ptr<const ops::ForestLayout> layout;

  // What the head computes; see data::Forest.
  at::Tensor rows;         // int64
  at::Tensor targets;      // int64
  at::Tensor row_weights;  // float32, or undefined: all are 1
  std::vector<std::int32_t> row_starts;
};

// A token that the model has no embedding for, or a sequence that is longer than it was made for, is a
// UserError.
Batch make_batch(const data::Forest& forest, const Shape& shape, at::Device device);

// The same batch on another device.
Batch moved(const Batch& batch, at::Device device);

}  // namespace dpo::model
