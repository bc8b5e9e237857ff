#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace dpo::optim {
namespace {

// Returns the parts of a block that this rank contributes to the norm: all of it, except that only the first
// rank counts tensors that every tensor-parallel rank holds whole. Neighbouring tensors form one part: a
// block may have hundreds of experts, and the padding between them is zero.
std::vector<at::Tensor> counted(const at::Tensor& flat, const model::Block& block,
                                const model::Layout& layout) {
  if (layout.tensor_rank == 0) return {flat};
  const model::LocalBlock local = model::local_block(block, layout);
  const std::int64_t own_begin = layout.shard_rank * local.shard_size;
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < block.tensors.size();) {
    const std::size_t first = i;
    while (i < block.tensors.size() && block.tensors[i].split) ++i;
    if (i == first) {
      ++i;
      continue;
    }
    const model::LocalTensor& last = local.tensors[i - 1];
    const std::int64_t begin = std::max(local.tensors[first].start, own_begin);
    const std::int64_t end = std::min(last.start + last.count(), own_begin + local.shard_size);
    if (begin < end) parts.push_back(flat.narrow(0, begin - own_begin, end - begin));
  }
  return parts;
}

}  // namespace

at::Tensor block_norm(const at::Tensor& gradients) {
  const at::NoGradGuard no_grad;
  if (!gradients.is_cpu())
    return at::linalg_vector_norm(gradients, 2, std::nullopt, /*keepdim=*/false, at::kFloat).to(at::kDouble);
  // On a CPU LibTorch sums float32 values one after another in float32, and after 100 million of them 3 % are
  // missing. In float64 it copies its input, so this works in pieces.
  constexpr std::int64_t kPiece = 1 << 20;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& piece : gradients.split(kPiece))
    norms.push_back(at::linalg_vector_norm(piece, 2, std::nullopt, /*keepdim=*/false, at::kDouble));
  return at::stack(norms).norm();
}

double norm_of_all(const std::vector<at::Tensor>& norms) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> together;
  for (const at::Tensor& norm : norms) together.push_back(norm.to(norms.front().device()));
  return at::stack(together).norm().item<double>();
}

double gradient_norm(const model::Weights& gradients, const model::TensorTable& table,
                     const model::Layout& layout, comm::Group& ranks) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    for (const at::Tensor& part : counted(gradients.blocks[i].flat, table.blocks[i], layout))
      norms.push_back(block_norm(part).to(gradients.device()));
  // A shard may lie wholly within tensors that another rank counts.
  if (norms.empty()) norms.push_back(at::zeros({}, gradients.device()).to(at::kDouble));
  const at::Tensor own = at::stack(norms).norm();
  if (ranks.size() == 1) return own.item<double>();
  const at::Tensor square = own.square().reshape({1});
  ranks.all_reduce(square).wait();
  return std::sqrt(square.item<double>());
}

double clip_factor(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

}  // namespace dpo::optim
