#pragma once

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

struct GradientOptions {
  at::ScalarType reduce_dtype = at::kFloat;  // of the reduce-scatter
  // Every rank accumulates whole gradients over the microbatches of an update, and they are reduced once
  // (FSDP's no_sync); otherwise after every microbatch.
  bool accumulate_whole = false;
};

// `sums` is this rank's part.
std::unique_ptr<Gradients> make_gradients(const model::TensorTable& table, model::Weights& sums,
                                          const Mesh& mesh, const GradientOptions& options);

}  // namespace dpo::shard
