#pragma once

#include <functional>
#include <limits>
#include <memory>

#include "loss/loss.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/failures.h"
#include "train/policy.h"
#include "train/records.h"
#include "train/reference.h"

namespace dpo::train {

// A mean of numbers that come one by one.
struct RunningMean {
  double sum = 0;
  std::int64_t count = 0;

  void add(double value) { sum += value, ++count; }
  double value() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

// Everything that an update changes or reads.
struct Trainee {
  shard::Mesh mesh;  // of the ranks that train together
  Policy policy;
  std::unique_ptr<Reference> reference;
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::Schedule schedule;
  loss::Options loss;
  model::PassOptions pass;
  std::int64_t microbatches = 1;
  double max_gradient_norm = 10;
  RunningMean rewards{};  // of all responses that were trained on
  std::uint64_t seed = 0;
  std::size_t max_length = std::numeric_limits<std::size_t>::max();  // tokens of a prompt and a response
};

struct UpdateResult {
  std::vector<Record> records;
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;  // that were computed
  bool finite() const;
};

// The gradients of the batch's mean loss go into the policy; nothing else changes.
UpdateResult compute_gradients(Trainee& trainee, const ExampleBatch& batch);

// One update over a batch. A loss or gradient that is not finite is a TrainingFailure before anything
// changes; what `check` throws, too.
UpdateResult update(Trainee& trainee, const ExampleBatch& batch,
                    const std::function<void(const UpdateResult&)>& check = {});

// Before the first update policy and reference are the same model, computed by the same kernels: scores that
// differ by more than the rounding of `type` are a TrainingFailure.
void require_equal_models(const UpdateResult& result, at::ScalarType type);

// The same numbers without an update.
std::vector<Record> evaluate(const Trainee& trainee, const ExampleBatch& batch);

}  // namespace dpo::train
