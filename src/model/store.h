#pragma once

#include <optional>

#include "base/progress_count.h"
#include "model/weights.h"

namespace dpo::model {

// Gives a pass the weights of a model, which may be on this device, sharded over ranks, or spread over
// devices. A pass asks for one block after the other and releases each. The pass is the same for every kind
// of store.
class Store {
 public:
  virtual ~Store() = default;

  virtual std::size_t blocks() const = 0;
  virtual at::Device device(std::size_t block) const = 0;
  virtual at::ScalarType dtype() const = 0;

  // Returns the weights of a block, valid until release(). `next` is the block that will be asked for after
  // it, so that it can be prefetched.
  virtual const BlockWeights& weights(std::size_t block, std::optional<std::size_t> next) = 0;
  virtual void release(std::size_t block) = 0;
  // Called after a pass: gathered weights may be freed.
  virtual void end_pass() = 0;
  // Must be called after an optimizer step has changed the weights: the next pass gathers them again.
  virtual void end_update() = 0;
};

// Holds the weights of a block while they are in use.
class Lease {
 public:
  Lease(Store& store, std::size_t block, std::optional<std::size_t> next)
      : store_(store), block_(block), weights_(store.weights(block, next)) {}
  ~Lease() {
    store_.release(block_);
    count_progress();
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const BlockWeights& operator*() const { return weights_; }

 private:
  Store& store_;
  std::size_t block_;
  const BlockWeights& weights_;
};

// Accumulates gradients.
class GradientStore {
 public:
  virtual ~GradientStore() = default;

  // Returns the gradient buffers of a block. A pass adds to them until it calls complete().
  virtual BlockWeights& gradients(std::size_t block) = 0;
  // True if gradients() returns at once. Otherwise it may wait for the reduction of another block, and should
  // be called when the block's gradients are computed.
  virtual bool is_ready() const { return true; }
  virtual void complete(std::size_t block) = 0;
};

// Stores for weights and gradients that this process holds whole.
class ResidentStore : public Store {
 public:
  explicit ResidentStore(const Weights& weights) : weights_(weights) {}

  std::size_t blocks() const override { return weights_.blocks.size(); }
  at::Device device(std::size_t block) const override { return weights_.blocks[block].flat.device(); }
  at::ScalarType dtype() const override { return weights_.dtype(); }
  const BlockWeights& weights(std::size_t block, std::optional<std::size_t>) override {
    return weights_.blocks[block];
  }
  void release(std::size_t) override {}
  void end_pass() override {}
  void end_update() override {}

 private:
  const Weights& weights_;
};

class ResidentGradients : public GradientStore {
 public:
  explicit ResidentGradients(Weights& gradients) : gradients_(gradients) {}

  BlockWeights& gradients(std::size_t block) override { return gradients_.blocks[block]; }
  void complete(std::size_t) override {}

 private:
  Weights& gradients_;
};

}  // namespace dpo::model
