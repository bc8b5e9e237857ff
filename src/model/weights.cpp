#include "model/weights.h"

#include <stdexcept>

#include <ATen/ops/zeros.h>

namespace dpo::model {
namespace {

const NamedTensor& named_tensor(const BlockWeights& block, std::string_view name) {
  if (const NamedTensor* named = block.find(name)) return *named;
  throw std::logic_error("no tensor '" + std::string(name) + "' in this block");
}

}  // namespace

const NamedTensor* BlockWeights::find(std::string_view name) const {
  for (const NamedTensor& named : tensors)
    if (named.name == name) return &named;
  return nullptr;
}

const at::Tensor& BlockWeights::operator()(std::string_view name) const {
  return named_tensor(*this, name).tensor;
}

Matrix BlockWeights::matrix(const std::string& name) const {
  const NamedTensor& named = named_tensor(*this, name + ".weight");
  return {named.tensor, named.transposed};
}

at::Tensor BlockWeights::bias(const std::string& name) const {
  const NamedTensor* named = find(name + ".bias");
  return named ? named->tensor : at::Tensor();
}

BlockWeights block_views(const at::Tensor& flat, const Block& block, const Layout& layout) {
  const LocalBlock local = local_block(block, layout);
  BlockWeights weights{flat, {}};
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const LocalTensor& tensor = local.tensors[i];
    weights.tensors.push_back({block.tensors[i].name.substr(block.prefix.size()),
                               flat.narrow(0, tensor.start, tensor.count()).view(tensor.shape),
                               block.tensors[i].transposed});
  }
  return weights;
}

BlockWeights rank_block(const at::Tensor& flat, const Block& block, const Layout& layout) {
  return layout.shard_ranks == 1 ? block_views(flat, block, layout) : BlockWeights{flat, {}};
}

Weights make_weights(const TensorTable& table, at::ScalarType dtype, at::Device device,
                     const Layout& layout) {
  Weights weights;
  for (const Block& block : table.blocks) {
    const at::Tensor flat =
        at::zeros({local_block(block, layout).shard_size}, at::TensorOptions().dtype(dtype).device(device));
    weights.blocks.push_back(rank_block(flat, block, layout));
  }
  return weights;
}

}  // namespace dpo::model
