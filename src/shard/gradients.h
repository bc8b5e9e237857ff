#pragma once

#include <functional>
#include <memory>

#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// Gradients that the ranks of a mesh sum: each ends up with the sums of its own part of the model.
class Gradients : public model::GradientStore {
 public:
  // After the last pass of an update: waits for pending reductions, and sums over replicas.
  virtual void finish() = 0;
};

// Receives the complete gradients of a block.
using OnBlock = std::function<void(std::size_t block, const model::BlockWeights& gradients)>;

struct GradientOptions {
  at::ScalarType reduce_dtype = at::kFloat;  // of the reduce-scatter
  // Every rank accumulates whole gradients over the microbatches of an update, and they are reduced once
  // (FSDP's no_sync); otherwise after every microbatch.
  bool accumulate_whole = false;
};

// The gradients of one pass of one rank. Those of a block exist until `on_block` has had them; the last
// block's are complete first.
std::unique_ptr<model::GradientStore> make_freed_gradients(const model::TensorTable& table,
                                                           const model::Weights& weights,
                                                           at::ScalarType dtype, OnBlock on_block);

// `sums` is this rank's part.
std::unique_ptr<Gradients> make_gradients(const model::TensorTable& table, model::Weights& sums,
                                          const Mesh& mesh, const GradientOptions& options);

}  // namespace dpo::shard
