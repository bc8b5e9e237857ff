#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/model.h"
#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// A model with this rank's part of its weights, and the store through which passes read them.
class Placed {
 public:
  Placed(model::Model model, model::Weights weights, const Mesh& mesh);

  const model::Model& model() const { return model_; }
  const model::Weights& weights() const { return *weights_; }
  model::Store& store() const { return *store_; }

 private:
  model::Model model_;
  std::unique_ptr<model::Weights> weights_;  // the store refers to it
  std::unique_ptr<model::Store> store_;
};

// The store of weights that stay where they are.
std::unique_ptr<model::Store> make_store(const model::TensorTable& table, model::Weights& weights,
                                         const Mesh& mesh);

// On which of the devices each block lies, in order, so that each holds about as many bytes: a block lies
// where its middle falls.
std::vector<at::Device> spread_over(const model::TensorTable& table, std::span<const at::Device> devices);

// The weights, each block on its device.
model::Weights moved(const model::TensorTable& table, const model::Weights& weights,
                     std::span<const at::Device> devices);

// Zeros like these weights, on the same devices, in another type.
model::Weights zeros_like(const model::TensorTable& table, const model::Weights& weights, at::ScalarType type,
                          const model::Layout& layout);

}  // namespace dpo::shard
