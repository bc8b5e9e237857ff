#include "model/quantized_block.h"
#include "base/number_formats.h"

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
  QuantizedBlock::Stored add(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const QuantizedBlock::Stored stored{{size_, static_cast<std::int64_t>(tensor.nbytes())},
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

at::Tensor view_of(const at::Tensor& bytes, const QuantizedBlock::Stored& stored) {
  if (stored.bytes.count == 0) return {};
  return bytes.narrow(0, stored.bytes.from, stored.bytes.count).view(stored.type);
}

// Returns a tensor-parallel rank's part of a matrix.
ops::QuantizedMatrix part_of_matrix(const ops::QuantizedMatrix& matrix, const TensorInfo& tensor,
                                    const LocalTensor& local, const Layout& layout) {
  if (layout.tensor_ranks == 1) return matrix;
  const std::int64_t each = *tensor.split == 0 ? tensor.shape[1] : 1;  // elements for each row or column
  std::vector<ops::Slice> slices;
  for (const Range& range : local.ranges) slices.push_back({range.from / each, range.count / each});
  return ops::select(matrix, tensor.shape, *tensor.split, slices,
                     nf4_group_on_ranks(tensor, layout.tensor_ranks, kNf4Block));
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

BlockWeights quantize(const BlockWeights& whole, const Block& block, ops::QuantizedDtype dtype,
                      const Layout& layout, const StoredMatrices& stored) {
  const at::NoGradGuard no_grad;
  const LocalBlock all = local_block(block, {}), local = local_block(block, layout);
  if (whole.flat.numel() != all.size) throw std::logic_error("a part of a block cannot be quantized");
  const auto is_quantized = [&](std::size_t tensor) {
    return stored.empty() ? is_quantizable(block, block.tensors[tensor]) : stored[tensor].has_value();
  };
  if (std::ranges::none_of(std::views::iota(std::size_t{0}, block.tensors.size()), is_quantized))
    return part_of_block(whole.flat, block, layout);
  QuantizedBlock quantized;
  Bytes bytes;
  std::vector<at::Tensor> others = {whole.flat.narrow(0, 0, 0)};
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const LocalTensor& from = all.tensors[i];
    const LocalTensor& to = local.tensors[i];
    if (!is_quantized(i)) {
      quantized.others.push_back({to.start, to.count()});
      others.push_back(local_values(whole.flat, from, to));
      continue;
    }
    const at::Tensor values = whole.flat.narrow(0, from.start, from.count()).view(from.shape);
    ops::QuantizedMatrix matrix = part_of_matrix(stored.empty() ? ops::quantize(values, dtype) : *stored[i],
                                                 block.tensors[i], to, layout);
    const auto moved = [&bytes](at::Tensor& tensor) { return bytes.add(std::exchange(tensor, {})); };
    quantized.matrices.push_back({to.start, to.shape, moved(matrix.codes), moved(matrix.scales),
                                  moved(matrix.nested), std::move(matrix)});
  }
  quantized.other_values = bytes.add(at::cat(others));
  quantized.shard_size = to_alignment((bytes.size() + layout.shard_ranks - 1) / layout.shard_ranks);
  quantized.size = quantized.shard_size * layout.shard_ranks;
  const at::Tensor joined = bytes.joined(quantized.size);
  if (layout.shard_ranks == 1) return quantized_views(joined, quantized);
  BlockWeights shard{joined.narrow(0, layout.shard_rank * quantized.shard_size, quantized.shard_size).clone(),
                     {}};
  shard.quantized = std::make_shared<const QuantizedBlock>(std::move(quantized));
  return shard;
}

BlockWeights quantized_views(const at::Tensor& bytes, const QuantizedBlock& like) {
  auto quantized = std::make_shared<QuantizedBlock>(like);
  for (QuantizedBlock::Part& part : quantized->matrices) {
    part.matrix.codes = view_of(bytes, part.codes);
    part.matrix.scales = view_of(bytes, part.scales);
    part.matrix.nested = view_of(bytes, part.nested);
  }
  quantized->values = view_of(bytes, quantized->other_values);
  BlockWeights weights{bytes, {}};
  weights.quantized = std::move(quantized);
  return weights;
}

void dequantize(const BlockWeights& weights, const at::Tensor& flat) {
  const at::NoGradGuard no_grad;
  std::int64_t from = 0;
  for (const Range& range : weights.quantized->others) {
    flat.narrow(0, range.from, range.count).copy_(weights.quantized->values.narrow(0, from, range.count));
    from += range.count;
  }
  for (const QuantizedBlock::Part& part : weights.quantized->matrices) {
    const at::Tensor values = flat.narrow(0, part.start, part.shape[0] * part.shape[1]);
    ops::dequantize(part.matrix, values.view(part.shape));
  }
}

}  // namespace dpo::model
