#include "model/small_block.h"

#include <algorithm>
#include <ranges>
#include <stdexcept>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

namespace dpo::model {
namespace {

constexpr std::int64_t kByteAlignment = 128;  // as for tensors in a flat buffer of 16 bits

std::int64_t to_alignment(std::int64_t bytes) {
  return (bytes + kByteAlignment - 1) / kByteAlignment * kByteAlignment;
}

// Collects tensors that will be one buffer of bytes.
class Bytes {
 public:
  SmallBlock::Stored add(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const SmallBlock::Stored stored{{size_, static_cast<std::int64_t>(tensor.nbytes())},
                                    tensor.scalar_type()};
    tensors_.emplace_back(stored.bytes, tensor);
    size_ = to_alignment(size_ + stored.bytes.count);
    return stored;
  }

  std::int64_t size() const { return size_; }

  at::Tensor joined(std::int64_t size) const {
    const at::Tensor bytes = at::zeros({size}, tensors_.front().second.options().dtype(at::kByte));
    for (const auto& [range, tensor] : tensors_)
      bytes.narrow(0, range.from, range.count).copy_(tensor.view({-1}).view(at::kByte));
    return bytes;
  }

 private:
  std::vector<std::pair<Range, at::Tensor>> tensors_;
  std::int64_t size_ = 0;
};

at::Tensor view_of(const at::Tensor& bytes, const SmallBlock::Stored& stored) {
  if (stored.bytes.count == 0) return {};
  return bytes.narrow(0, stored.bytes.from, stored.bytes.count).view(stored.type);
}

// Returns a tensor-parallel rank's part of a matrix.
ops::SmallMatrix part_of_matrix(const ops::SmallMatrix& matrix, const TensorInfo& tensor,
                                const LocalTensor& local, const Layout& layout) {
  if (layout.tensor_ranks == 1) return matrix;
  const std::int64_t each = *tensor.split == 0 ? tensor.shape[1] : 1;  // elements for each row or column
  std::vector<ops::Slice> slices;
  for (const Range& range : local.ranges) slices.push_back({range.from / each, range.count / each});
  return ops::select(matrix, tensor.shape, *tensor.split, slices,
                     block_on_ranks(tensor, layout.tensor_ranks, ops::kNf4Block));
}

// Returns the elements of a tensor that a tensor-parallel rank holds, from the flat buffer of the whole
// block.
at::Tensor local_values(const at::Tensor& whole, const LocalTensor& from, const LocalTensor& local) {
  const at::Tensor values = whole.narrow(0, from.start, from.count()).view({local.repeats, -1});
  std::vector<at::Tensor> parts;
  for (const Range& range : local.ranges) parts.push_back(values.narrow(1, range.from, range.count));
  return at::cat(parts, 1).view({-1});
}

}  // namespace

BlockWeights to_small(const BlockWeights& whole, const Block& block, ops::SmallDtype dtype,
                      const Layout& layout, const StoredMatrices& stored) {
  const at::NoGradGuard no_grad;
  const LocalBlock all = local_block(block, {}), local = local_block(block, layout);
  if (whole.flat.numel() != all.size) throw std::logic_error("a part of a block cannot be quantized");
  const auto is_small = [&](std::size_t tensor) {
    return stored.empty() ? may_be_small(block, block.tensors[tensor]) : stored[tensor].has_value();
  };
  if (std::ranges::none_of(std::views::iota(std::size_t{0}, block.tensors.size()), is_small))
    return part_of_block(whole.flat, block, layout);
  SmallBlock small;
  Bytes bytes;
  std::vector<at::Tensor> others = {whole.flat.narrow(0, 0, 0)};
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const LocalTensor& from = all.tensors[i];
    const LocalTensor& to = local.tensors[i];
    if (!is_small(i)) {
      small.others.push_back({to.start, to.count()});
      others.push_back(local_values(whole.flat, from, to));
      continue;
    }
    const at::Tensor values = whole.flat.narrow(0, from.start, from.count()).view(from.shape);
    ops::SmallMatrix matrix = part_of_matrix(stored.empty() ? ops::to_small(values, dtype) : *stored[i],
                                             block.tensors[i], to, layout);
    const auto moved = [&bytes](at::Tensor& tensor) { return bytes.add(std::exchange(tensor, {})); };
    small.matrices.push_back({to.start, to.shape, moved(matrix.codes), moved(matrix.scales),
                              moved(matrix.nested), std::move(matrix)});
  }
  small.other_values = bytes.add(at::cat(others));
  small.shard_size = to_alignment((bytes.size() + layout.shard_ranks - 1) / layout.shard_ranks);
  small.size = small.shard_size * layout.shard_ranks;
  const at::Tensor joined = bytes.joined(small.size);
  if (layout.shard_ranks == 1) return small_views(joined, small);
  BlockWeights shard{joined.narrow(0, layout.shard_rank * small.shard_size, small.shard_size).clone(), {}};
  shard.small = std::make_shared<const SmallBlock>(std::move(small));
  return shard;
}

BlockWeights small_views(const at::Tensor& bytes, const SmallBlock& like) {
  auto small = std::make_shared<SmallBlock>(like);
  for (SmallBlock::Part& part : small->matrices) {
    part.matrix.codes = view_of(bytes, part.codes);
    part.matrix.scales = view_of(bytes, part.scales);
    part.matrix.nested = view_of(bytes, part.nested);
  }
  small->values = view_of(bytes, small->other_values);
  BlockWeights weights{bytes, {}};
  weights.small = std::move(small);
  return weights;
}

void from_small(const BlockWeights& weights, const at::Tensor& flat) {
  const at::NoGradGuard no_grad;
  std::int64_t from = 0;
  for (const Range& range : weights.small->others) {
    flat.narrow(0, range.from, range.count).copy_(weights.small->values.narrow(0, from, range.count));
    from += range.count;
  }
  for (const SmallBlock::Part& part : weights.small->matrices) {
    const at::Tensor values = flat.narrow(0, part.start, part.shape[0] * part.shape[1]);
    ops::from_small(part.matrix, values.view(part.shape));
  }
}

}  // namespace dpo::model
