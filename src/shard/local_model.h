#pragma once

#include <memory>
#include <span>
#include <vector>

#include "config/choices.h"
#include "model/model.h"
#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// A model with this rank's part of its weights, and the store that passes read them from. Copies share both.
class LocalModel {
 public:
  // `reshard`: when gathered copies of these weights are freed, if they are sharded.
  LocalModel(model::Model model, model::Weights weights, const Mesh& mesh,
             config::Reshard reshard = config::Reshard::pass);
  // Creates a model with an adapter, model.trained, over the weights of `base`, which are shared.
  LocalModel(model::Model model, const LocalModel& base, model::Weights adapter, const Mesh& mesh,
             config::Reshard reshard = config::Reshard::pass);

  const model::Model& model() const { return model_; }
  const model::Weights& weights() const { return *weights_; }  // the adapter's, if there is one
  model::Store& store() const { return *store_; }

  // Returns a copy with its weights in host memory. Each block is copied to its device when it is used. The
  // weights must not be sharded, and must not be an adapter's.
  LocalModel offloaded(const Mesh& mesh) const;

 private:
  model::Model model_;
  std::shared_ptr<const LocalModel> base_;   // null without an adapter
  std::shared_ptr<model::Weights> weights_;  // at a fixed address, since the store refers to it
  std::shared_ptr<model::Store> store_;
};

// Creates the store that reads these weights.
std::unique_ptr<model::Store> make_store(const model::TensorTable& table, model::Weights& weights,
                                         const Mesh& mesh, config::Reshard reshard);

// Returns the device of each block of a model that is spread over devices (model::spread_blocks).
std::vector<at::Device> spread_over(const model::TensorTable& table, std::span<const at::Device> devices);

// Copies each block of the weights to its device.
model::Weights to_devices(const model::TensorTable& table, const model::Weights& weights,
                          std::span<const at::Device> devices);

// Returns zeros for this rank's part of the table. Each block is on the device of the same block of
// `weights`.
model::Weights zeros_like(const model::TensorTable& table, const model::Weights& weights,
                          at::ScalarType dtype, const model::Layout& layout);

}  // namespace dpo::shard
