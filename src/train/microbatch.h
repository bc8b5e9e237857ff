#pragma once

#include <vector>

#include "data/forest.h"
#include "model/batch.h"
#include "train/records.h"

namespace dpo::train {

// A part of a batch where it is computed.
struct Microbatch {
  data::Forest forest;
  model::Batch packed;
};

// A batch divided by tokens into so many parts. The same batch is always divided in the same way, so that
// policy and reference compute the same shapes.
std::vector<Microbatch> divide_batch(const ExampleBatch& batch, std::int64_t parts, const model::Shape& shape,
                                     at::Device device);

}  // namespace dpo::train
