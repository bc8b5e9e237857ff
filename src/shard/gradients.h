#pragma once

#include <functional>
#include <memory>

#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// Gradients summed over the ranks of a mesh. Each rank ends up with the sums for its own part of the model.
class Gradients : public model::GradientStore {
 public:
  // Must be called before the first pass of an update: gradients that are added next replace the old ones.
  virtual void begin() = 0;
  // May be called before the last pass of an update. Then the sums of a block start as soon as that pass has
  // completed it; otherwise they start in finish().
  virtual void begin_last_pass() = 0;
  // Must be called after the last pass of an update. Waits for all sums.
  virtual void finish() = 0;
};

// Receives the complete gradients of a block.
using OnBlock = std::function<void(std::size_t block, const model::BlockWeights& gradients)>;

struct GradientOptions {
  at::ScalarType reduce_dtype = at::kFloat;  // of the reduce-scatter
  // If true, every rank accumulates whole gradients over the microbatches of an update and reduces them once
  // (FSDP's no_sync). Otherwise they are reduced after every microbatch.
  bool accumulate_whole = false;
};

// Returns a store for the gradients of one pass of one rank. A block's gradients are freed after `on_block`
// returns. Blocks complete from the last to the first.
std::unique_ptr<model::GradientStore> make_freed_gradients(const model::TensorTable& table,
                                                           const model::Weights& weights,
                                                           at::ScalarType dtype, OnBlock on_block);

// Returns the store that adds to `sums`, this rank's part.
std::unique_ptr<Gradients> make_gradients(const model::TensorTable& table, model::Weights& sums,
                                          const Mesh& mesh, const GradientOptions& options);

}  // namespace dpo::shard
