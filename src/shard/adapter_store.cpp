#include "shard/adapter_store.h"

#include <algorithm>

namespace dpo::shard {
namespace {

// The adapter's tensors come last, in the order of its table: backward() relies on that of the trained ones.
model::BlockWeights combined(const model::BlockWeights& base, const model::BlockWeights& adapter) {
  model::BlockWeights both = base;
  std::erase_if(both.tensors,
                [&](const model::NamedTensor& named) { return adapter.find(named.name) != nullptr; });
  both.tensors.insert(both.tensors.end(), adapter.tensors.begin(), adapter.tensors.end());
  return both;
}

}  // namespace

AdapterStore::AdapterStore(model::Store& base, std::unique_ptr<model::Store> adapter)
    : base_(base), adapter_(std::move(adapter)), blocks_(base.blocks()) {}

// Both stores return the same tensors whenever they are asked for a block, so they are combined once.
const model::BlockWeights& AdapterStore::weights(std::size_t block, std::optional<std::size_t> next) {
  const model::BlockWeights& base = base_.weights(block, next);
  const model::BlockWeights& adapter = adapter_->weights(block, next);
  if (!blocks_[block].flat.defined()) blocks_[block] = combined(base, adapter);
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

}  // namespace dpo::shard
