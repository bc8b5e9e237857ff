// train updates a policy: batches, microbatches, scoring, gradients and references.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/run_config.h"
#include "data/examples.h"
#include "data/forest.h"
#include "model/batch.h"
#include "shard/mesh.h"

namespace dpo::train {

// Indices of examples in their split.
using Indices = std::vector<std::uint32_t>;

struct ExampleBatch {
  data::Split split = data::Split::Train;
  Indices indices;
  std::vector<data::Example> examples;
};

ExampleBatch batch_of(const data::Examples& examples, data::Split split, const Indices& indices);

// Return all batches of a run, one for each update, and the batches of each of its evaluations.
std::vector<Indices> training_batches(const data::Examples& train, const config::RunConfig& config);
std::vector<Indices> evaluation_batches(const data::Examples& test, const config::RunConfig& config);

// A part of a batch, on the device that computes it.
struct Microbatch {
  data::Forest forest;
  model::Batch packed;
};

// This rank's microbatches of a batch, split by tokens; some may be empty. A batch is always split in the
// same way, so that policy and reference compute the same shapes. Each microbatch is packed when it is first
// asked for, while a GPU computes the previous one.
class Microbatches {
 public:
  Microbatches(const ExampleBatch& batch, std::int64_t count, const shard::Mesh& mesh,
               const model::ModelShape& shape, at::Device device);

  std::size_t size() const { return packed_.size(); }
  const Microbatch& at(std::size_t i);
  // Returns the weight of one microbatch in the mean over the batch's non-empty microbatches on all ranks.
  double share() const { return share_; }

 private:
  const ExampleBatch& batch_;
  const model::ModelShape& shape_;
  at::Device device_;
  double share_ = 1;
  std::vector<std::vector<std::int64_t>> examples_;  // of each microbatch
  std::vector<std::optional<Microbatch>> packed_;
};

}  // namespace dpo::train
