#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/model.h"
#include "model/store.h"
#include "shard/mesh.h"

namespace dpo::shard {

// A model with this rank's part of its weights, and the store that passes read them from. Copies share both.
class LocalModel {
 public:
  LocalModel(model::Model model, model::Weights weights, const Mesh& mesh);
  // A model with an adapter, model.trained, over the weights of `base`, which are shared.
  LocalModel(model::Model model, const LocalModel& base, model::Weights adapter, const Mesh& mesh);

  const model::Model& model() const { return model_; }
  const model::Weights& weights() const { return *weights_; }  // of the adapter, if there is one
  model::Store& store() const { return *store_; }

  // The same with its weights in host memory, from where each block is copied to its device when it is used.
  // They must not be sharded, and no adapter's.
  LocalModel offloaded(const Mesh& mesh) const;

 private:
  model::Model model_;
  std::shared_ptr<const LocalModel> base_;   // null without an adapter
  std::shared_ptr<model::Weights> weights_;  // at a fixed address, since the store refers to it
  std::shared_ptr<model::Store> store_;
};

// A store of these weights.
std::unique_ptr<model::Store> make_store(const model::TensorTable& table, model::Weights& weights,
                                         const Mesh& mesh);

// The device of each block, in order and so that devices hold about equal bytes, like transformers'
// device_map="balanced": a block is on the device that its middle falls on.
std::vector<at::Device> spread_over(const model::TensorTable& table, std::span<const at::Device> devices);

// The weights, each block on its device.
model::Weights to_devices(const model::TensorTable& table, const model::Weights& weights,
                          std::span<const at::Device> devices);

// Zeros for what a rank holds of the table, each block on the device of that of the weights.
model::Weights zeros_like(const model::TensorTable& table, const model::Weights& weights,
                          at::ScalarType dtype, const model::Layout& layout);

}  // namespace dpo::shard
