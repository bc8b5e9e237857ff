#pragma once

#include <functional>
#include <optional>

#include "config/storage.h"
#include "shard/gradients.h"
#include "shard/local_model.h"
#include "shard/mesh.h"

namespace dpo::train {

at::ScalarType scalar_type_of(config::Dtype dtype);
config::Storage storage_of(const config::RunConfig& config, const shard::Mesh& mesh);

// The model that is trained: this rank's shard of it.
class Policy {
 public:
  // `weights` is this rank's shard of model.trained, in the stored dtype. If they are an adapter's, `base` is
  // the frozen model, in the computed dtype.
  Policy(model::Model model, model::Weights weights, const config::Storage& storage,
         const shard::Mesh& mesh = {}, const std::optional<shard::LocalModel>& base = std::nullopt);

  const model::Model& model() const { return computed_.model(); }
  model::Store& store() const { return computed_.store(); }
  // Returns the weights of model().trained, which the optimizer updates. Float32 weights that are computed in
  // bfloat16 are stored in two parts (ops/split_floats.h), and the passes read the first.
  const model::Weights& stored() const { return stored_; }
  model::Weights& trained() { return stored_; }

  bool keeps_gradients() const { return gradients_ != nullptr; }
  // Only if they are not kept: returns a store that passes the gradients of each block to `on_block`. It must
  // not outlive this policy.
  std::unique_ptr<model::GradientStore> gradients_by_block(shard::OnBlock on_block) const;
  // The following need keeps_gradients().
  model::Weights& gradients() { return *gradients_; }
  model::GradientStore& gradient_store() { return *reduction_; }
  // Must be called before the first pass: gradients that are added next replace the old ones.
  void begin_gradients() { reduction_->begin(); }
  // May be called before the last pass, so that sums over ranks overlap with it.
  void begin_last_pass() { reduction_->begin_last_pass(); }
  // Must be called after the last pass. Waits for sums over ranks and returns the norm of the whole model's
  // gradients.
  double finish_gradients();
  // Returns the weights that the passes read, if they are a copy of the stored ones in another dtype
  // (float16). An update must write both.
  const model::Weights* copy() const;

 private:
  shard::Mesh mesh_;
  at::ScalarType gradient_dtype_;
  model::Weights stored_;
  shard::LocalModel computed_;
  std::unique_ptr<model::Weights> gradients_;  // null if they are not kept
  std::unique_ptr<shard::Gradients> reduction_;
};

}  // namespace dpo::train
