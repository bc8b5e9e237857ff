#include "model/weights.h"

#include <stdexcept>

#include <ATen/ops/zeros.h>

namespace dpo::model {
namespace {

const NamedTensor& named_tensor(const BlockWeights& block, std::string_view name) {
  if (const NamedTensor* named = block.find(name)) return *named;
  throw std::logic_error("no tensor '" + std::string(name) + "' in this block");
}

// Tensors [first, last) of a block, which have one shape, as one tensor.
NamedTensor stack_view(const at::Tensor& flat, const Block& block, const LocalBlock& local, std::size_t first,
                       std::size_t last) {
  const LocalTensor& one = local.tensors[first];
  const auto size = static_cast<std::int64_t>(last - first);
  const std::int64_t distance = size > 1 ? local.tensors[first + 1].start - one.start : one.count();
  std::vector<std::int64_t> shape = one.shape;
  shape.insert(shape.begin(), size);
  const at::Tensor rows = flat.narrow(0, one.start, size * distance).view({size, distance});
  return {block.tensors[first].stack, rows.narrow(1, 0, one.count()).view(shape)};
}

// Tensors [first, last) of a block, which follow each other without padding, as the rows of one.
NamedTensor joined_view(const at::Tensor& flat, const Block& block, const LocalBlock& local,
                        std::size_t first, std::size_t last) {
  std::vector<std::int64_t> shape = local.tensors[first].shape;
  std::int64_t count = local.tensors[first].count();
  for (std::size_t i = first + 1; i < last; ++i) {
    shape[0] += local.tensors[i].shape[0];
    count += local.tensors[i].count();
  }
  return {block.tensors[first].stack, flat.narrow(0, local.tensors[first].start, count).view(shape)};
}

// Whether the tensors that are joined to NAME.weight follow each other without padding, and those of
// NAME.bias too, if the block has them.
bool can_join(const Block& block, const LocalBlock& local, const std::string& name) {
  const auto stem = [](const std::string& of) { return of.substr(0, of.rfind('.')); };
  for (std::size_t i = 0; i + 1 < block.tensors.size(); ++i) {
    const TensorInfo& tensor = block.tensors[i];
    if (tensor.joined && tensor.stack == block.tensors[i + 1].stack && stem(tensor.stack) == stem(name) &&
        local.tensors[i].start + local.tensors[i].count() != local.tensors[i + 1].start)
      return false;
  }
  return true;
}

std::vector<NamedTensor> operands_of(const BlockWeights& weights, const Block& block,
                                     const LocalBlock& local) {
  std::vector<NamedTensor> operands;
  for (std::size_t i = 0; i < block.tensors.size();) {
    const std::string& stack = block.tensors[i].stack;
    const bool joined = block.tensors[i].joined;
    if (stack.empty() || (joined && !can_join(block, local, stack))) {
      operands.push_back(weights.tensors[i++]);
      continue;
    }
    const std::size_t first = i;
    while (i < block.tensors.size() && block.tensors[i].stack == stack) ++i;
    operands.push_back((joined ? joined_view : stack_view)(weights.flat, block, local, first, i));
  }
  return operands;
}

}  // namespace

const NamedTensor* BlockWeights::find(std::string_view name) const {
  for (const NamedTensor& named : operands)
    if (named.name == name) return &named;
  return nullptr;
}

const at::Tensor& BlockWeights::operator()(std::string_view name) const {
  return named_tensor(*this, name).tensor;
}

Matrix BlockWeights::matrix(const std::string& name) const {
  const NamedTensor& named = named_tensor(*this, name + ".weight");
  return {named.tensor, named.transposed, named.sum};
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
  weights.operands = operands_of(weights, block, local);
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
