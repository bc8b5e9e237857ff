#pragma once

#include <memory>
#include <vector>

#include "config/run_config.h"
#include "model/pass.h"
#include "shard/local_model.h"
#include "train/batches.h"
#include "train/score_table.h"

namespace dpo::train {

// The frozen model.
struct ReferenceModel {
  shard::LocalModel local;
  model::PassOptions pass;

  // Of each response of a forest.
  at::Tensor scores(const model::Batch& batch) const;

  at::ScalarType product_dtype() const { return pass.fp8 ? at::kFloat8_e4m3fn : local.store().dtype(); }
};

// Where the log-probabilities of the reference come from.
class Reference {
 public:
  virtual ~Reference() = default;

  // Of each response of a microbatch of `batch`. A device may still be computing them: to_host() waits for
  // it.
  virtual at::Tensor scores(const Microbatch& microbatch, const ExampleBatch& batch) = 0;

  // The model that computes them, to sample from; null if there is none any more.
  virtual const ReferenceModel* model() const { return nullptr; }
};

// Losses without a reference get zeros.
std::unique_ptr<Reference> no_reference();

// With its weights in host memory, if the run offloads the reference and this one has weights of its own on a
// GPU.
ReferenceModel placed(ReferenceModel model, const config::RunConfig& config, const shard::Mesh& mesh);

// Computed in each update.
std::unique_ptr<Reference> live_reference(ReferenceModel model);

// Computed once before training; the model is not needed after that.
struct CachedScores {
  ScoreTable train, test;
};
std::unique_ptr<Reference> cached_reference(CachedScores scores);

// Log-probabilities, copied to the host.
std::vector<double> to_host(const at::Tensor& tensor);

}  // namespace dpo::train
