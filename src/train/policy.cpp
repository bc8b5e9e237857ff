#include "train/policy.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>

#include "optim/clip.h"

namespace dpo::train {
namespace {

// The stored weights themselves if the dtypes are the same.
shard::LocalModel computed_model(const model::Model& model, const model::Weights& stored,
                                 at::ScalarType dtype, const shard::Mesh& mesh,
                                 const std::optional<shard::LocalModel>& base) {
  model::Weights weights =
      dtype == stored.dtype() ? stored : shard::zeros_like(model.trained, stored, dtype, mesh.layout());
  if (base) return {model, *base, std::move(weights), mesh};
  return {model, std::move(weights), mesh};
}

}  // namespace

Policy::Policy(model::Model model, model::Weights weights, const PolicyPrecision& precision,
               const shard::Mesh& mesh, const shard::GradientOptions& reduction,
               const std::optional<shard::LocalModel>& base)
    : mesh_(mesh),
      stored_(std::move(weights)),
      computed_(computed_model(model, stored_, precision.computed, mesh, base)),
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
