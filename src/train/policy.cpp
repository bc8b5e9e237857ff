#include "train/policy.h"

#include <ATen/core/grad_mode.h>

namespace dpo::train {

Policy::Policy(model::Model model, model::Weights weights, const PolicyPrecision& precision)
    : model_(std::move(model)),
      stored_(std::move(weights)),
      computed_(precision.computed == precision.stored
                    ? stored_
                    : model::make_weights(model_.table, precision.computed, stored_.device())),
      gradients_(model::make_weights(model_.table, precision.gradients, stored_.device())) {
  refresh();
}

void Policy::clear_gradients() {
  for (model::BlockWeights& block : gradients_.blocks) block.flat.zero_();
}

void Policy::refresh() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < stored_.blocks.size(); ++i)
    if (!computed_.blocks[i].flat.is_same(stored_.blocks[i].flat))
      computed_.blocks[i].flat.copy_(stored_.blocks[i].flat);
}

}  // namespace dpo::train
