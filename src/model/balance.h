#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpo::model {

// The balance loss of a mixture of experts, as in transformers (load_balancing_loss_func), over the tokens of
// all layers: experts * sum_e(f_e * p_e), where f_e is the share of tokens that choose expert e, and p_e is
// the expert's mean probability. It equals `experts_per_token` if all experts are used equally, otherwise
// more.
class BalanceLoss {
 public:
  // Adds one layer: the router's probabilities, [tokens, experts], and its choices, int64 [tokens, chosen].
  void add(const at::Tensor& probabilities, const at::Tensor& experts);

  double value() const;

  // Returns the gradient with respect to the sum over tokens of any layer's probabilities, float32 [experts].
  // Undefined without tokens. The choices have no gradient.
  at::Tensor gradient() const;

 private:
  at::Tensor chosen_, sums_;  // of all layers, float32 [experts]
  double rows_ = 0;           // tokens of all layers
};

}  // namespace dpo::model
