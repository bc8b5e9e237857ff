#include "model/weights.h"

#include <stdexcept>

#include <ATen/ops/zeros.h>

namespace dpo::model {
namespace {

// Every tensor starts at a multiple of this many elements: 128 bytes in bfloat16, which vector instructions
// and matrix kernels want.
constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

BlockWeights make_block(const Block& block, at::TensorOptions options) {
  std::int64_t size = 0;
  for (const Tensor& tensor : block.tensors) size += aligned(tensor.count());
  BlockWeights weights;
  weights.flat = at::zeros({size}, options);
  std::int64_t start = 0;
  for (const Tensor& tensor : block.tensors) {
    weights.tensors.push_back({tensor.name.substr(block.prefix.size()),
                               weights.flat.narrow(0, start, tensor.count()).view(tensor.shape)});
    start += aligned(tensor.count());
  }
  return weights;
}

}  // namespace

const at::Tensor* BlockWeights::find(std::string_view name) const {
  for (const NamedTensor& named : tensors)
    if (named.name == name) return &named.tensor;
  return nullptr;
}

const at::Tensor& BlockWeights::operator()(std::string_view name) const {
  if (const at::Tensor* tensor = find(name)) return *tensor;
  throw std::logic_error("no tensor '" + std::string(name) + "' in this block");
}

Weights make_weights(const TensorTable& table, at::ScalarType dtype, at::Device device) {
  Weights weights;
  for (const Block& block : table.blocks)
    weights.blocks.push_back(make_block(block, at::TensorOptions().dtype(dtype).device(device)));
  return weights;
}

}  // namespace dpo::model
