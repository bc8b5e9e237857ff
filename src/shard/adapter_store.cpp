#include "shard/adapter_store.h"

namespace dpo::shard {

AdapterStore::AdapterStore(model::Store& base, std::unique_ptr<model::Store> adapter)
    : base_(base), adapter_(std::move(adapter)), blocks_(base.blocks()) {}

// Both stores return the same tensors on every call for a block, so they are combined once.
const model::BlockWeights& AdapterStore::weights(std::size_t block, std::optional<std::size_t> next) {
  const model::BlockWeights& base = base_.weights(block, next);
  const model::BlockWeights& adapter = adapter_->weights(block, next);
  if (!blocks_[block].flat.defined()) blocks_[block] = model::with_adapter(base, adapter);
  return blocks_[block];
}

void AdapterStore::release(std::size_t block) {
  base_.release(block);
  adapter_->release(block);
}

void AdapterStore::end_pass() {
  base_.end_pass();
  adapter_->end_pass();
}

void AdapterStore::end_update() {
  base_.end_update();
  adapter_->end_update();
}

}  // namespace dpo::shard
