#include "shard/local_model.h"

#include <algorithm>

#include <ATen/ops/zeros.h>

#include "model/quantized_block.h"
#include "ops/transfers.h"
#include "shard/adapter_store.h"
#include "shard/offloaded_store.h"
#include "shard/quantized_store.h"
#include "shard/sharded_store.h"

namespace dpo::shard {

LocalModel::LocalModel(model::Model model, model::Weights weights, const Mesh& mesh, config::Reshard reshard)
    : model_(std::move(model)),
      weights_(std::make_shared<model::Weights>(std::move(weights))),
      store_(make_store(model_.table, *weights_, mesh, reshard)) {}

LocalModel::LocalModel(model::Model model, const LocalModel& base, model::Weights adapter, const Mesh& mesh,
                       config::Reshard reshard)
    : model_(std::move(model)),
      base_(std::make_shared<const LocalModel>(base)),
      weights_(std::make_shared<model::Weights>(std::move(adapter))),
      store_(std::make_shared<AdapterStore>(base_->store(),
                                            make_store(model_.trained, *weights_, mesh, reshard))) {}

LocalModel LocalModel::offloaded(const Mesh& mesh) const {
  std::vector<at::Device> devices;
  model::Weights host;
  for (std::size_t i = 0; i < weights_->blocks.size(); ++i) {
    const at::Tensor& flat = weights_->blocks[i].flat;
    devices.push_back(flat.device());
    const at::Tensor copy = ops::host_zeros(flat.numel(), flat.scalar_type(), flat.device());
    copy.copy_(flat);
    host.blocks.push_back(model::rank_block(copy, model_.table.blocks[i], mesh.layout()));
  }
  LocalModel result = *this;
  result.weights_ = std::make_shared<model::Weights>(std::move(host));
  result.store_ = std::make_shared<OffloadedStore>(model_.table, *result.weights_, devices, mesh);
  return result;
}

std::unique_ptr<model::Store> make_store(const model::TensorTable& table, model::Weights& weights,
                                         const Mesh& mesh, config::Reshard reshard) {
  std::unique_ptr<model::Store> store;
  if (mesh.shard->size() > 1) {
    store = std::make_unique<ShardedStore>(table, weights, mesh, reshard);
  } else {
    if (mesh.tensor->size() > 1)
      for (model::BlockWeights& block : weights.blocks) block.tensor_group = mesh.tensor;
    store = std::make_unique<model::ResidentStore>(weights);
  }
  if (std::ranges::none_of(weights.blocks, [](const auto& block) { return block.quantized != nullptr; }))
    return store;
  return std::make_unique<QuantizedStore>(table, weights, std::move(store), mesh);
}

std::vector<at::Device> spread_over(const model::TensorTable& table, std::span<const at::Device> devices) {
  std::vector<at::Device> of_block;
  for (const std::size_t device : model::spread_blocks(table, devices.size()))
    of_block.push_back(devices[device]);
  return of_block;
}

model::Weights to_devices(const model::TensorTable& table, const model::Weights& weights,
                          std::span<const at::Device> devices) {
  model::Weights copies;
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    copies.blocks.push_back(
        weights.blocks[i].quantized
            ? model::quantized_views(weights.blocks[i].flat.to(devices[i]), *weights.blocks[i].quantized)
            : model::block_views(weights.blocks[i].flat.to(devices[i]), table.blocks[i], {}));
  return copies;
}

model::Weights zeros_like(const model::TensorTable& table, const model::Weights& weights,
                          at::ScalarType dtype, const model::Layout& layout) {
  model::Weights zeros;
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const at::Tensor flat = at::zeros({model::local_block(table.blocks[i], layout).shard_size},
                                      weights.blocks[i].flat.options().dtype(dtype));
    zeros.blocks.push_back(model::rank_block(flat, table.blocks[i], layout));
  }
  return zeros;
}

}  // namespace dpo::shard
