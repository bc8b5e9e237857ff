#pragma once

#include <memory>
#include <vector>

#include "model/store.h"

namespace dpo::shard {

// A store that joins the weights of a model and of its adapter (model::with_adapter). The adapter's tensors
// come last, in the order of its table, because backward() relies on the order of the trained tensors.
class AdapterStore : public model::Store {
 public:
  // `base` may be used by other stores too, by one pass at a time.
  AdapterStore(model::Store& base, std::unique_ptr<model::Store> adapter);

  std::size_t blocks() const override { return base_.blocks(); }
  at::Device device(std::size_t block) const override { return base_.device(block); }
  at::ScalarType dtype() const override { return base_.dtype(); }
  const model::BlockWeights& weights(std::size_t block, std::optional<std::size_t> next) override;
  void release(std::size_t block) override;
  void end_pass() override;
  void end_update() override;

 private:
  model::Store& base_;
  std::unique_ptr<model::Store> adapter_;
  std::vector<model::BlockWeights> blocks_;  // without a flat buffer until they are first used
};

}  // namespace dpo::shard
