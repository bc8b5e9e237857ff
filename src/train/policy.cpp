#include "train/policy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "optim/clip.h"

namespace dpo::train {
namespace {

// Returns the weights as they are stored. Float32 weights that are computed in bfloat16 are split into a
// bfloat16 part and the rest. Blocks are split one at a time, so that at most one of them is in memory in
// both forms.
model::Weights stored_weights(const model::TensorTable& table, model::Weights weights,
                              const config::Storage& storage, const model::Layout& layout) {
  if (!storage.in_two_parts()) return weights;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const at::Tensor exact = weights.blocks[i].flat;
    at::Tensor rounded = at::empty(exact.sizes(), exact.options().dtype(at::kBFloat16));
    ops::FloatRest rest = ops::make_rest(exact.numel(), exact.device());
    ops::split(exact, rounded, rest);
    weights.blocks[i] = model::rank_block(rounded, table.blocks[i], layout);
    weights.blocks[i].rest = std::move(rest);
  }
  return weights;
}

// Makes the model that the passes compute with. It uses the stored weights themselves if the dtypes are the
// same.
shard::LocalModel computed_model(const model::Model& model, const model::Weights& stored,
                                 const config::Storage& storage, const shard::Mesh& mesh,
                                 const std::optional<shard::LocalModel>& base) {
  const at::ScalarType dtype = scalar_type_of(storage.computed);
  model::Weights weights =
      dtype == stored.dtype() ? stored : shard::zeros_like(model.trained, stored, dtype, mesh.layout());
  if (base) return {model, *base, std::move(weights), mesh, storage.reshard_trained};
  return {model, std::move(weights), mesh, storage.reshard_trained};
}

}  // namespace

at::ScalarType scalar_type_of(config::Dtype dtype) {
  switch (dtype) {
    case config::Dtype::float32: return at::kFloat;
    case config::Dtype::bfloat16: return at::kBFloat16;
    case config::Dtype::float16: return at::kHalf;
    case config::Dtype::automatic: break;
  }
  throw std::logic_error("a dtype that the plan has not decided");
}

config::Storage storage_of(const config::RunConfig& config, const shard::Mesh& mesh) {
  return config::storage_of(config, mesh.shape(), mesh.device.is_cuda());
}

Policy::Policy(model::Model model, model::Weights weights, const config::Storage& storage,
               const shard::Mesh& mesh, const std::optional<shard::LocalModel>& base)
    : mesh_(mesh),
      gradient_dtype_(scalar_type_of(storage.gradients)),
      stored_(stored_weights(model.trained, std::move(weights), storage, mesh.layout())),
      computed_(computed_model(model, stored_, storage, mesh, base)) {
  if (!storage.optimizer_in_backward) {
    gradients_ = std::make_unique<model::Weights>(
        shard::zeros_like(model.trained, stored_, gradient_dtype_, mesh.layout()));
    reduction_ = shard::make_gradients(computed_.model().trained, *gradients_, mesh_,
                                       {scalar_type_of(storage.reduced), storage.accumulates_unsharded});
  }
  const at::NoGradGuard no_grad;
  if (const model::Weights* copied = copy())
    for (std::size_t i = 0; i < stored_.blocks.size(); ++i)
      copied->blocks[i].flat.copy_(stored_.blocks[i].flat);
}

double Policy::finish_gradients() {
  reduction_->finish();
  return optim::gradient_norm(*gradients_, model().trained, mesh_.layout(), *mesh_.model);
}

std::unique_ptr<model::GradientStore> Policy::gradients_by_block(shard::OnBlock on_block) const {
  return shard::make_freed_gradients(model().trained, stored_, gradient_dtype_, std::move(on_block));
}

const model::Weights* Policy::copy() const {
  return computed_.weights().dtype() == stored_.dtype() ? nullptr : &computed_.weights();
}

}  // namespace dpo::train
