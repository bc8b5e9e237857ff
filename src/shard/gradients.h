#pragma once

#include <memory>

#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// Gradients that the ranks of a mesh sum: each ends with the sums of what it holds of the model.
class Gradients : public model::GradientStore {
 public:
  // Waits for what is under way, and sums over replicas: after the last pass of an update.
  virtual void finish() = 0;
};

struct GradientOptions {
  at::ScalarType reduced = at::kFloat;  // in which they are exchanged
  bool whole = false;  // the passes of an update are summed on every rank first, and exchanged once
};

// `sums` is this rank's part.
std::unique_ptr<Gradients> make_gradients(const model::TensorTable& table, model::Weights& sums,
                                          const Mesh& mesh, const GradientOptions& options);

}  // namespace dpo::shard
