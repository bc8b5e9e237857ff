#include "model/small_block.h"

#include <stdexcept>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

namespace dpo::model {

BlockWeights to_small(const BlockWeights& weights, const Block& block, ops::SmallDtype dtype,
                      const StoredMatrices& stored) {
  const at::NoGradGuard no_grad;
  const LocalBlock local = local_block(block, {});
  if (weights.flat.numel() != local.size) throw std::logic_error("a part of a block cannot be quantized");
  auto small = std::make_shared<SmallBlock>();
  std::vector<at::Tensor> others = {weights.flat.narrow(0, 0, 0)};
  std::int64_t end = 0;  // of the last matrix
  const auto keep_to = [&](std::int64_t begin) {
    if (begin == end) return;
    small->others.push_back({end, begin - end});
    others.push_back(weights.flat.narrow(0, end, begin - end));
  };
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const LocalTensor& tensor = local.tensors[i];
    if (stored.empty() ? !may_be_small(block, block.tensors[i]) : !stored[i].has_value()) continue;
    keep_to(tensor.start);
    end = tensor.start + tensor.count();
    const auto quantized = [&] {
      return ops::to_small(weights.flat.narrow(0, tensor.start, tensor.count()).view(tensor.shape), dtype);
    };
    small->matrices.push_back({tensor.start, tensor.shape, stored.empty() ? quantized() : *stored[i]});
  }
  if (small->matrices.empty()) return weights;
  keep_to(local.size);
  BlockWeights made{at::cat(others), {}};
  made.small = std::move(small);
  return made;
}

void from_small(const BlockWeights& weights, const at::Tensor& flat) {
  const at::NoGradGuard no_grad;
  std::int64_t from = 0;
  for (const Range& range : weights.small->others) {
    flat.narrow(0, range.from, range.count).copy_(weights.flat.narrow(0, from, range.count));
    from += range.count;
  }
  for (const SmallBlock::Part& part : weights.small->matrices) {
    const at::Tensor values = flat.narrow(0, part.start, part.shape[0] * part.shape[1]);
    ops::from_small(part.matrix, values.view(part.shape));
  }
}

BlockWeights small_to_device(const BlockWeights& weights, at::Device device) {
  auto small = std::make_shared<SmallBlock>(*weights.small);
  for (SmallBlock::Part& part : small->matrices) part.matrix = ops::to_device(part.matrix, device);
  BlockWeights moved{weights.flat.to(device), {}};
  moved.small = std::move(small);
  return moved;
}

}  // namespace dpo::model
