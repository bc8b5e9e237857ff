#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpo::model {

// The balance loss of a mixture of experts, as in transformers (load_balancing_loss_func): over the tokens of
// all layers, the number of experts times the sum over experts of (how often it is chosen, per token) times
// (its mean probability). It is `experts_per_token` if all are used alike, and more if some are preferred.
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
