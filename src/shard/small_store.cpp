#include "shard/small_store.h"

#include "model/small_block.h"

namespace dpo::shard {
namespace {

std::vector<at::Device> devices_of(const model::Weights& weights) {
  std::vector<at::Device> devices;
  for (const model::BlockWeights& block : weights.blocks) devices.push_back(block.flat.device());
  return devices;
}

}  // namespace

SmallStore::SmallStore(const model::TensorTable& table, const model::Weights& weights, const Mesh& mesh)
    : FetchingStore(table, weights.dtype(), devices_of(weights), mesh, /*room=*/1), weights_(weights) {}

const model::BlockWeights& SmallStore::weights(std::size_t block, std::optional<std::size_t>) {
  return is_small(block) ? FetchingStore::weights(block, std::nullopt) : weights_.blocks[block];
}

void SmallStore::release(std::size_t block) {
  if (is_small(block)) FetchingStore::release(block);
}

comm::Work SmallStore::fetch(std::size_t block, const at::Tensor& flat) {
  model::from_small(weights_.blocks[block], flat);
  return {};
}

}  // namespace dpo::shard
