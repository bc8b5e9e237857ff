#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>

#include "base/progress_count.h"
#include "optim/update_rules.h"

namespace dpo::optim {

void Optimizer::step(model::Weights& weights, const model::Weights& gradients, double learning_rate,
                     std::uint64_t seed, const StepOptions& options) {
  begin_step();
  for (std::size_t i = weights.blocks.size(); i-- > 0;)
    step_block(i, weights, gradients.blocks[i], learning_rate, seed, options);
}

void Optimizer::step_block(std::size_t block, model::Weights& weights, const model::BlockWeights& gradients,
                           double learning_rate, std::uint64_t seed, const StepOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Tensor copy = options.copy ? options.copy->blocks[block].flat : at::Tensor();
  const bool copied = update(block, weights.blocks[block], gradients,
                             {learning_rate, seed + block, options.gradient_scale, copy});
  if (copy.defined() && !copied) copy.copy_(weights.blocks[block].flat);
  count_progress();
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
