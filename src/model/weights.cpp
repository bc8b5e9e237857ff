#include "model/weights.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "base/splitmix64.h"
#include "model/tensor_parallel.h"

namespace dpo::model {
namespace {

const NamedTensor& named_tensor(const BlockWeights& block, std::string_view name) {
  if (const NamedTensor* named = block.find(name)) return *named;
  throw std::logic_error("no tensor '" + std::string(name) + "' in this block");
}

// Returns the LoRA of NAME.weight, or nullopt if it has none. The ranks of a tensor-parallel group each
// compute a part of the matmul. A tensor that every rank has whole (A or B) is used for all parts, so its
// gradient is the sum over ranks.
std::optional<Lora> lora_of(const BlockWeights& block, const std::string& name) {
  const NamedTensor* const a = block.find(name + ".lora_A.weight");
  if (!a) return std::nullopt;
  const auto summed = [&block](const NamedTensor& named) {
    return named.split ? named.tensor : copy_to_tensor_parallel(block, named.tensor);
  };
  const NamedTensor& b = named_tensor(block, name + ".lora_B.weight");
  Lora lora{.a = summed(*a), .b = summed(b), .scale = b.scale};
  if (const NamedTensor* const magnitude = block.find(name + ".lora_magnitude_vector"))
    lora.magnitude = summed(*magnitude);
  lora.dropout = {block.dropout.rate, key_of(block.dropout.seed, name)};
  if (a->split && block.tensor_group) {
    lora.input_group = block.tensor_group;
    lora.dropout.seed =
        splitmix64(lora.dropout.seed + static_cast<std::uint64_t>(block.tensor_group->rank()));
  }
  return lora;
}

// Views tensors [first, last) of a block, which have the same shape, as one tensor.
NamedTensor stack_view(const at::Tensor& flat, const Block& block, const LocalBlock& local, std::size_t first,
                       std::size_t last) {
  const LocalTensor& one = local.tensors[first];
  const auto size = static_cast<std::int64_t>(last - first);
  const std::int64_t distance = size > 1 ? local.tensors[first + 1].start - one.start : one.count();
  std::vector<std::int64_t> shape = one.shape;
  shape.insert(shape.begin(), size);
  const at::Tensor rows = flat.narrow(0, one.start, size * distance).view({size, distance});
  return {.name = block.tensors[first].stack,
          .tensor = rows.narrow(1, 0, one.count()).view(shape),
          .parts = last - first};
}

// Views tensors [first, last) of a block, which follow each other without padding, as the rows of one tensor.
NamedTensor joined_view(const at::Tensor& flat, const Block& block, const LocalBlock& local,
                        std::size_t first, std::size_t last) {
  std::vector<std::int64_t> shape = local.tensors[first].shape;
  std::int64_t count = local.tensors[first].count();
  for (std::size_t i = first + 1; i < last; ++i) {
    shape[0] += local.tensors[i].shape[0];
    count += local.tensors[i].count();
  }
  return {.name = block.tensors[first].stack,
          .tensor = flat.narrow(0, local.tensors[first].start, count).view(shape),
          .parts = last - first};
}

// True if the tensors that are joined to NAME.weight follow each other without padding, and those of
// NAME.bias do too, if the block has them.
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

ops::GradientSum sum_of(const NamedTensor* gradient) {
  return gradient ? ops::GradientSum{gradient->tensor, gradient->overwrite} : ops::GradientSum();
}

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
  return {named.tensor, named.transposed, named.sum, lora_of(*this, name), fp8};
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
                               block.tensors[i].transposed, block.tensors[i].scale,
                               block.tensors[i].split.has_value()});
  }
  weights.operands = operands_of(weights, block, local);
  return weights;
}

// Splits joined and stacked operands that contain a tensor of the adapter: a matrix with an adapter needs a
// separate matmul.
std::vector<NamedTensor> separated(const BlockWeights& block, const BlockWeights& adapter) {
  const auto is_adapted = [&adapter](const NamedTensor& named) {
    const std::string module = named.name.substr(0, named.name.rfind('.'));
    return adapter.find(named.name) || adapter.find(module + ".lora_A.weight");
  };
  std::vector<NamedTensor> operands;
  auto part = block.tensors.begin();
  for (const NamedTensor& operand : block.operands) {
    const auto end = part + static_cast<std::ptrdiff_t>(operand.parts);
    if (std::any_of(part, end, is_adapted))
      operands.insert(operands.end(), part, end);
    else
      operands.push_back(operand);
    part = end;
  }
  return operands;
}

BlockWeights with_adapter(const BlockWeights& block, const BlockWeights& adapter) {
  BlockWeights both{block.flat, {}, separated(block, adapter), block.tensor_group};
  std::erase_if(both.operands, [&](const NamedTensor& named) { return adapter.find(named.name) != nullptr; });
  both.operands.insert(both.operands.end(), adapter.operands.begin(), adapter.operands.end());
  return both;
}

Weights with_adapter(const Weights& weights, const Weights& adapter) {
  Weights both;
  for (std::size_t i = 0; i < weights.blocks.size(); ++i)
    both.blocks.push_back(with_adapter(weights.blocks[i], adapter.blocks[i]));
  return both;
}

void merge_adapter(Weights& weights, const Weights& adapter) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights.blocks.size(); ++i) {
    const BlockWeights both = with_adapter(weights.blocks[i], adapter.blocks[i]);
    for (NamedTensor& named : weights.blocks[i].tensors) {
      const std::string module = named.name.substr(0, named.name.rfind('.'));
      if (const NamedTensor* const own = adapter.blocks[i].find(named.name))
        named.tensor.copy_(own->tensor);
      else if (named.name.ends_with(".weight") && both.find(module + ".lora_A.weight"))
        named.tensor.copy_(merged(both.matrix(module)));
    }
  }
}

BlockWeights rank_block(const at::Tensor& flat, const Block& block, const Layout& layout) {
  return layout.shard_ranks == 1 ? block_views(flat, block, layout) : BlockWeights{flat, {}};
}

BlockWeights part_of_block(const at::Tensor& whole, const Block& block, const Layout& layout) {
  const at::NoGradGuard no_grad;
  if (layout.tensor_ranks * layout.shard_ranks == 1) return rank_block(whole, block, layout);
  const LocalBlock all = local_block(block, {});
  const at::Tensor part = at::zeros({block_size(block, layout).shard_size}, whole.options());
  for (const Piece& piece : pieces_of(block, layout))
    part.narrow(0, piece.to, piece.count)
        .copy_(whole.narrow(0, all.tensors[piece.tensor].start + piece.from, piece.count));
  return rank_block(part, block, layout);
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
