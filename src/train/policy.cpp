#include "train/policy.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>

#include "optim/clip.h"

namespace dpo::train {
namespace {

model::Weights computed_weights(const model::TensorTable& table, const model::Weights& stored,
                                at::ScalarType dtype, const model::Layout& layout) {
  return dtype == stored.dtype() ? stored : shard::zeros_like(table, stored, dtype, layout);
}

}  // namespace

Policy::Policy(model::Model model, model::Weights weights, const PolicyPrecision& precision,
               const shard::Mesh& mesh, const shard::GradientOptions& reduction)
    : mesh_(mesh),
      stored_(std::move(weights)),
      computed_(model, computed_weights(model.table, stored_, precision.computed, mesh.layout()), mesh),
      gradients_(std::make_unique<model::Weights>(
          shard::zeros_like(model.trained, stored_, precision.gradients, mesh.layout()))),
      reduction_(shard::make_gradients(computed_.model().trained, *gradients_, mesh_, reduction)) {
  refresh();
}

void Policy::clear_gradients() {
  for (model::BlockWeights& block : gradients_->blocks) block.flat.zero_();
}

double Policy::finish_gradients() {
  reduction_->finish();
  return optim::gradient_norm(*gradients_, model().trained, mesh_.layout(), *mesh_.model);
}

void Policy::refresh() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < stored_.blocks.size(); ++i) {
    const at::Tensor& computed = computed_.weights().blocks[i].flat;
    if (!computed.is_same(stored_.blocks[i].flat)) computed.copy_(stored_.blocks[i].flat);
  }
}

}  // namespace dpo::train
