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

// How ranks and microbatches share a batch.
struct Division {
  std::int64_t parts = 1;  // on every rank
  std::int64_t rank = 0, ranks = 1;
};

// A batch divided by tokens; this rank's parts, of which some may be empty. The same batch is always divided
// in the same way, so that policy and reference compute the same shapes.
std::vector<Microbatch> divide_batch(const ExampleBatch& batch, const Division& division,
                                     const model::Shape& shape, at::Device device);

}  // namespace dpo::train
