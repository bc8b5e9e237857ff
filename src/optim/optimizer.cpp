#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>

#include "optim/update_rules.h"

namespace dpo::optim {

void Optimizer::step(model::Weights& weights, const model::Weights& gradients, double learning_rate,
                     std::uint64_t seed, const StepOptions& options) {
  const at::NoGradGuard no_grad;
  ++updates_;
  for (std::size_t i = 0; i < weights.blocks.size(); ++i) {
    const at::Tensor copy = options.copy ? options.copy->blocks[i].flat : at::Tensor();
    const bool copied = update(i, weights.blocks[i], gradients.blocks[i],
                               {learning_rate, seed + i, options.gradient_scale, copy});
    if (copy.defined() && !copied) copy.copy_(weights.blocks[i].flat);
  }
}

std::unique_ptr<Optimizer> make_optimizer(config::Optimizer kind, const model::Weights& weights,
                                          const OptimizerSettings& settings) {
  using Kind = config::Optimizer;
  const double epsilon = settings.epsilon.value_or(1e-8);
  const double decay = settings.weight_decay.value_or(kind == Kind::AdamW ? 0.01 : 0);
  const auto [beta1, beta2] = settings.betas.value_or(std::pair(0.9, 0.999));
  switch (kind) {
    case Kind::RMSprop: return make_elementwise(rmsprop(epsilon, decay), weights, settings);
    case Kind::Adam: return make_elementwise(adam({beta1, beta2, epsilon, /*l2=*/decay}), weights, settings);
    case Kind::AdamW:
      return make_elementwise(adam({beta1, beta2, epsilon, /*l2=*/0, /*decoupled=*/decay}), weights,
                              settings);
    case Kind::SGD: return make_elementwise(sgd(decay), weights, settings);
    case Kind::Adafactor: return make_adafactor(weights, decay);
  }
  return nullptr;
}

}  // namespace dpo::optim
