#include "model/balance.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

namespace dpo::model {

void BalanceLoss::add(const at::Tensor& probabilities, const at::Tensor& experts) {
  const at::NoGradGuard no_grad;
  const at::Tensor sums = probabilities.to(at::kFloat).sum(0);
  const at::Tensor ones = at::ones({experts.numel()}, sums.options());
  const at::Tensor chosen = at::zeros_like(sums).scatter_add_(0, experts.flatten(), ones);
  // Layers may be on several devices.
  sums_ = sums_.defined() ? sums_ + sums.to(sums_.device()) : sums;
  chosen_ = chosen_.defined() ? chosen_ + chosen.to(chosen_.device()) : chosen;
  rows_ += static_cast<double>(probabilities.size(0));
}

double BalanceLoss::value() const { return sums_.defined() ? (gradient() * sums_).sum().item<double>() : 0; }

at::Tensor BalanceLoss::gradient() const {
  if (!chosen_.defined()) return {};
  return chosen_ * (static_cast<double>(chosen_.size(0)) / (rows_ * rows_));
}

}  // namespace dpo::model
