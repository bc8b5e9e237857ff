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
  std::int64_t tokens = 0;  // computed, over all ranks
  double aux_loss = 0;      // the balance loss of experts, the mean over microbatches; 0 if it is off
  bool finite() const;
};

using Check = std::function<void(const UpdateResult&)>;

// Computes the gradients of the batch's mean loss, and of the balance loss if it is on, into the policy's
// buffers, which keep them; nothing else changes.
UpdateResult compute_gradients(TrainState& state, const ExampleBatch& batch);

// One update over a batch. A loss or gradient that is NaN or infinite is a TrainingFailure; this and what
// `check` throws happen before anything changes. A policy that does not keep its gradients is the exception:
// there a gradient is found to be NaN after blocks have been updated, and the policy is lost.
UpdateResult update(TrainState& state, const ExampleBatch& batch, const Check& check = {});

// Before the first update policy and reference are the same model, computed by the same kernels: scores that
// differ by more than the rounding of `dtype` are a TrainingFailure.
void require_equal_models(const UpdateResult& result, at::ScalarType dtype);

// Losses and log-probabilities without an update.
std::vector<Record> evaluate(const TrainState& state, const ExampleBatch& batch);

}  // namespace dpo::train
