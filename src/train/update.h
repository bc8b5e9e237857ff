#pragma once

#include <functional>
#include <vector>

#include "train/events.h"
#include "train/records.h"
#include "train/train_state.h"

namespace dpo::train {

struct UpdateResult {
  std::vector<Record> records;
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;  // computed, over all ranks, without repeated prompts
  double slowest_rank = 1;  // its cost over the mean of all ranks
  double aux_loss = 0;      // the balance loss of experts, the mean over microbatches; 0 if it is off
  bool finite() const;
};

using Check = std::function<void(const UpdateResult&)>;

// Computes the gradients of the batch's mean loss, and of the balance loss if it is on, and leaves them in
// the policy's buffers. Nothing else changes.
UpdateResult compute_gradients(TrainState& state, const ExampleBatch& batch);

// Performs one update over a batch. Throws a TrainingFailure if a loss or gradient is NaN or infinite.
// `check` may throw too. Both happen before anything changes, unless the policy does not keep its gradients:
// then a NaN gradient may be found after some blocks have been updated, and the weights are corrupted.
UpdateResult update(TrainState& state, const ExampleBatch& batch, const Check& check = {});

// Throws a TrainingFailure if scores of policy and reference differ by more than the rounding of `dtype`.
// Before the first update they are the same model, computed by the same kernels.
void require_equal_models(const UpdateResult& result, at::ScalarType dtype);

// Computes losses and log-probabilities without an update. `equal_models`: policy and reference are the same
// model, so one pass gives the scores of both.
std::vector<Record> evaluate(const TrainState& state, const ExampleBatch& batch, bool equal_models = false);

}  // namespace dpo::train
