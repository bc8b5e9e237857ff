#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "optim/optimizer.h"
#include "optim/stored_state.h"

namespace dpo::optim {

// Inputs of a rule other than weights, gradients and state; see Optimizer.
struct RuleStep {
  double learning_rate = 0;
  std::int64_t update = 1;  // counts from 1
  double gradient_scale = 1;
  at::Tensor copy = {};
  std::uint64_t seed = 0;  // for stochastic rounding
  std::int64_t first = 0;  // number of the first element, for stochastic rounding
};

// An elementwise optimizer over flat arrays.
struct Elementwise {
  struct Array {
    std::string name;
    bool is_signed = true;
  };
  std::vector<Array> state;
  // Computes the update in float32.
  std::function<void(at::Tensor& weights, const at::Tensor& gradients, std::span<at::Tensor> state,
                     const RuleStep& step)>
      update;
  // Computes the update with one of our kernels and writes the copy, if ops::fused::supports_update(). Null
  // if there is no kernel.
  std::function<void(const StoredArray& weights, const at::Tensor& gradients,
                     std::span<const StoredArray> state, const RuleStep& step)>
      fused;
};

// Returns the gradient in float32, times the scale.
at::Tensor scaled(const at::Tensor& gradient, double scale);

// Weight decay is added to the gradient (`l2`), or shrinks the weights themselves (`decoupled`).
struct AdamSettings {
  double beta1 = 0, beta2 = 0, epsilon = 0, l2 = 0, decoupled = 0;
};

Elementwise rmsprop(double epsilon, double l2);
Elementwise adam(const AdamSettings& settings);
Elementwise sgd(double l2);

std::unique_ptr<Optimizer> make_elementwise(Elementwise rule, const model::Weights& weights,
                                            const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_adafactor(const model::Weights& weights, double weight_decay);

}  // namespace dpo::optim
