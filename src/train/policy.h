#pragma once

#include "model/model.h"
#include "model/weights.h"

namespace dpo::train {

// In which types a policy is kept and computed.
struct PolicyPrecision {
  at::ScalarType stored = at::kFloat;     // of the weights that the optimizer updates
  at::ScalarType computed = at::kFloat;   // of the weights that the passes read
  at::ScalarType gradients = at::kFloat;  // of the sums over microbatches
};

// The model that is trained.
class Policy {
 public:
  // Takes the weights over; they are in the stored type.
  Policy(model::Model model, model::Weights weights, const PolicyPrecision& precision);

  const model::Model& model() const { return model_; }
  const model::Weights& computed() const { return computed_; }
  model::Weights& stored() { return stored_; }
  const model::Weights& stored() const { return stored_; }
  model::Weights& gradients() { return gradients_; }

  void clear_gradients();
  // After the stored weights changed: what the passes read follows them.
  void refresh();

 private:
  model::Model model_;
  model::Weights stored_;
  model::Weights computed_;  // the stored ones themselves where the types are the same
  model::Weights gradients_;
};

}  // namespace dpo::train
