#include "optim/clip.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace dpo::optim {

double gradient_norm(const model::Weights& gradients) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const model::BlockWeights& block : gradients.blocks)
    norms.push_back(at::linalg_vector_norm(block.flat, 2, std::nullopt, /*keepdim=*/false, at::kFloat));
  return at::stack(norms).to(at::kDouble).norm().item<double>();
}

void clip(model::Weights& gradients, double norm, double longest) {
  const at::NoGradGuard no_grad;
  const double factor = longest / (norm + 1e-6);
  if (factor >= 1) return;
  for (model::BlockWeights& block : gradients.blocks) block.flat.mul_(factor);
}

}  // namespace dpo::optim
