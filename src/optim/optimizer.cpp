#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "base/error.h"
#include "optim/bodies.h"

namespace dpo::optim {

void Optimizer::step(model::Weights& weights, const model::Weights& gradients, double learning_rate,
                     std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  ++updates_;
  for (std::size_t i = 0; i < weights.blocks.size(); ++i)
    update(i, weights.blocks[i], gradients.blocks[i], learning_rate, seed + i);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const model::Weights& weights) {
  if (name == "RMSprop") return make_elementwise(rmsprop(), weights);
  if (name == "Adam") return make_elementwise(adam(/*weight_decay=*/0), weights);
  if (name == "AdamW") return make_elementwise(adam(/*weight_decay=*/0.01), weights);
  if (name == "SGD") return make_elementwise(sgd(), weights);
  if (name == "Adafactor") return make_adafactor(weights);
  throw UserError(
      fmt::format("optimizer: there is no '{}', expected RMSprop, Adam, AdamW, SGD or Adafactor", name));
}

}  // namespace dpo::optim
