#include "optim/norm.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace dpo::optim {

at::Tensor norm_of(const at::Tensor& tensor) {
  if (!tensor.is_cpu())
    return at::linalg_vector_norm(tensor, 2, std::nullopt, /*keepdim=*/false, at::kFloat).to(at::kDouble);
  // On a CPU LibTorch adds float32 to float32, one after another: after 100 million of them 3 % are missing.
  // In float64 it copies what it reads, so in pieces.
  constexpr std::int64_t kPiece = 1 << 20;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& piece : tensor.flatten().split(kPiece))
    norms.push_back(at::linalg_vector_norm(piece, 2, std::nullopt, /*keepdim=*/false, at::kDouble));
  return at::stack(norms).norm();
}

}  // namespace dpo::optim
