#include "shard/placed.h"

#include <algorithm>

#include <ATen/ops/zeros_like.h>

#include "shard/sharded.h"

namespace dpo::shard {
namespace {

model::BlockWeights with_views(const at::Tensor& flat, const model::Block& block,
                               const model::Layout& layout) {
  return layout.shard_ranks == 1 ? model::block_in(flat, block, layout) : model::BlockWeights{flat, {}, {}};
}

}  // namespace

Placed::Placed(model::Model model, model::Weights weights, const Mesh& mesh)
    : model_(std::move(model)),
      weights_(std::make_unique<model::Weights>(std::move(weights))),
      store_(make_store(model_.table, *weights_, mesh)) {}

std::unique_ptr<model::Store> make_store(const model::TensorTable& table, model::Weights& weights,
                                         const Mesh& mesh) {
  if (mesh.shard->size() > 1) return std::make_unique<Sharded>(table, weights, mesh);
  if (mesh.tensor->size() > 1)
    for (model::BlockWeights& block : weights.blocks) block.partners = mesh.tensor;
  return std::make_unique<model::Resident>(weights);
}

std::vector<at::Device> spread_over(const model::TensorTable& table, std::span<const at::Device> devices) {
  const double share = static_cast<double>(table.count()) / static_cast<double>(devices.size());
  std::vector<at::Device> places;
  double passed = 0;
  for (const model::Block& block : table.blocks) {
    const auto size = static_cast<double>(block.count());
    const auto place = static_cast<std::size_t>((passed + size / 2) / share);
    places.push_back(devices[std::min(place, devices.size() - 1)]);
    passed += size;
  }
  return places;
}

model::Weights moved(const model::TensorTable& table, const model::Weights& weights,
                     std::span<const at::Device> devices) {
  model::Weights there;
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    there.blocks.push_back(model::block_in(weights.blocks[i].flat.to(devices[i]), table.blocks[i], {}));
  return there;
}

model::Weights zeros_like(const model::TensorTable& table, const model::Weights& weights, at::ScalarType type,
                          const model::Layout& layout) {
  model::Weights zeros;
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const at::Tensor& flat = weights.blocks[i].flat;
    zeros.blocks.push_back(
        with_views(at::zeros_like(flat, flat.options().dtype(type)), table.blocks[i], layout));
  }
  return zeros;
}

}  // namespace dpo::shard
