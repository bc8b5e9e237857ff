#pragma once

#include <functional>
#include <optional>

#include "shard/gradients.h"
#include "shard/local_model.h"
#include "shard/mesh.h"

namespace dpo::train {

// The dtypes of a policy.
struct PolicyPrecision {
  at::ScalarType stored = at::kFloat;     // of the weights that the optimizer updates
  at::ScalarType computed = at::kFloat;   // of the weights that the passes read
  at::ScalarType gradients = at::kFloat;  // of the sums over microbatches and ranks
};

// Where gradients are until an update: in buffers for the whole model, or only while a block is updated,
// which one rank can do with one microbatch and without clipping.
enum class KeptGradients { all, by_block };

// The model that is trained: this rank's shard of it.
class Policy {
 public:
  // `weights`: this rank's shard of model.trained, in the stored dtype. `base`: the frozen model, in the
  // computed dtype, if they are an adapter's.
  Policy(model::Model model, model::Weights weights, const PolicyPrecision& precision,
         const shard::Mesh& mesh = {}, const shard::GradientOptions& reduction = {},
         const std::optional<shard::LocalModel>& base = std::nullopt,
         KeptGradients kept = KeptGradients::all);

  const model::Model& model() const { return computed_.model(); }
  model::Store& store() const { return computed_.store(); }
  // The weights of model().trained, which the optimizer updates: float32 ones that are computed in bfloat16
  // in two parts (ops/split_floats.h), of which the passes read the first.
  const model::Weights& stored() const { return stored_; }
  model::Weights& trained() { return stored_; }

  bool keeps_gradients() const { return gradients_ != nullptr; }
  // Where they are not kept: a pass gives those of each block to `on_block`, which must not outlive this.
  std::unique_ptr<model::GradientStore> gradients_by_block(shard::OnBlock on_block) const;
  // Where they are kept:
  model::Weights& gradients() { return *gradients_; }
  model::GradientStore& gradient_store() { return *reduction_; }
  // Before the first backward pass: what is added next replaces the gradients.
  void clear_gradients();
  // After the last backward pass: reduces the gradients over the ranks and returns the norm of the whole
  // model's.
  double finish_gradients();
  // The weights that the passes read, if they are a copy of the stored ones in another dtype (float16): an
  // update must write both.
  const model::Weights* copy() const;

 private:
  // Not of shards, which have no tensors.
  void for_each_gradient(const std::function<void(model::NamedTensor&)>& action);

  shard::Mesh mesh_;
  at::ScalarType gradient_dtype_;
  model::Weights stored_;
  shard::LocalModel computed_;
  std::unique_ptr<model::Weights> gradients_;  // null if they are not kept
  std::unique_ptr<shard::Gradients> reduction_;
};

}  // namespace dpo::train
