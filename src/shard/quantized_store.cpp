#include "shard/quantized_store.h"

#include "model/quantized_block.h"

namespace dpo::shard {
namespace {

std::vector<at::Device> devices_of(const model::Weights& weights) {
  std::vector<at::Device> devices;
  for (const model::BlockWeights& block : weights.blocks) devices.push_back(block.flat.device());
  return devices;
}

}  // namespace

QuantizedStore::QuantizedStore(const model::TensorTable& table, const model::Weights& weights,
                               std::unique_ptr<model::Store> bytes, const Mesh& mesh)
    : FetchingStore(table, weights.dtype(), devices_of(weights), mesh, /*room=*/1),
      weights_(weights),
      bytes_(std::move(bytes)) {}

const model::BlockWeights& QuantizedStore::weights(std::size_t block, std::optional<std::size_t> next) {
  const model::BlockWeights& held = bytes_->weights(block, next);
  return is_quantized(block) ? FetchingStore::weights(block, std::nullopt) : held;
}

void QuantizedStore::release(std::size_t block) {
  if (is_quantized(block)) FetchingStore::release(block);
  bytes_->release(block);
}

void QuantizedStore::end_pass() {
  FetchingStore::end_pass();
  bytes_->end_pass();
}

void QuantizedStore::end_update() { bytes_->end_update(); }

comm::Work QuantizedStore::fetch(std::size_t block, const at::Tensor& flat) {
  const model::Lease lease(*bytes_, block, std::nullopt);
  model::dequantize(*lease, flat);
  return {};
}

}  // namespace dpo::shard
