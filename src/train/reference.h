#pragma once

#include <memory>
#include <vector>

#include "config/run_config.h"
#include "model/pass.h"
#include "shard/local_model.h"
#include "train/batches.h"
#include "train/score_table.h"

namespace dpo::train {

// The frozen reference model.
struct ReferenceModel {
  shard::LocalModel local;
  model::PassOptions pass;

  // Returns the log-probability of each response of a batch.
  at::Tensor scores(const model::Batch& batch) const;

  at::ScalarType matmul_dtype() const { return pass.fp8 ? at::kFloat8_e4m3fn : local.store().dtype(); }
};

// Provides the log-probabilities of the reference.
class Reference {
 public:
  virtual ~Reference() = default;

  // Returns the log-probability of each response of a microbatch of `batch`. A device may still be computing
  // them: to_host() waits for it.
  virtual at::Tensor scores(const Microbatch& microbatch, const ExampleBatch& batch) = 0;

  // Returns the model that computes them, to sample from, or null if there is none any more.
  virtual const ReferenceModel* model() const { return nullptr; }
};

// Makes a reference that returns zeros, for losses without a reference.
std::unique_ptr<Reference> no_reference();

// Moves the model's weights to host memory, if the run offloads the reference and this model has separate
// weights on a GPU.
ReferenceModel placed(ReferenceModel model, const config::RunConfig& config, const shard::Mesh& mesh);

// Makes a reference that is computed in each update.
std::unique_ptr<Reference> live_reference(ReferenceModel model);

// Scores computed once before training. The model is not needed after that.
struct CachedScores {
  ScoreTable train, test;
};
std::unique_ptr<Reference> cached_reference(CachedScores scores);

// Copies log-probabilities to the host.
std::vector<double> to_host(const at::Tensor& tensor);

}  // namespace dpo::train
