// train updates a policy: batches, microbatches, scoring, gradients and references.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "config/run_config.h"
#include "data/examples.h"
#include "data/partition.h"
#include "model/batch.h"
#include "model/model.h"
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

// How a batch is split into microbatches.
struct Splitting {
  std::int64_t microbatches = 1;  // of each rank
  // If the balance loss of experts is trained, prompts stay whole. That loss is a mean over the microbatches
  // of all ranks, and then depends only on their number.
  bool has_balance_loss = false;
};

// A part of a batch, on the device that computes it.
struct Microbatch {
  data::Forest forest;
  model::Batch packed;
};

// This rank's microbatches of a batch, of about equal cost; some may be empty. A batch is always split in the
// same way, so that policy and reference compute the same shapes. Each microbatch is packed when it is first
// asked for, while a GPU computes the previous one.
class Microbatches {
 public:
  Microbatches(const ExampleBatch& batch, Splitting splitting, const shard::Mesh& mesh,
               const model::Model& model, at::Device device);

  std::size_t size() const { return packed_.size(); }
  const Microbatch& at(std::size_t i);
  // True if examples of this microbatch are divided over ranks, which must then exchange their scores.
  bool has_divided(std::size_t i) const { return partition_.has_divided[i]; }
  // Returns the weight of one microbatch in the mean over the batch's non-empty microbatches on all ranks.
  double share() const { return share_; }
  std::int64_t repeated_tokens() const { return partition_.repeated_tokens; }  // on all ranks
  double slowest_rank() const { return partition_.slowest_rank; }              // its cost over the mean

 private:
  const ExampleBatch& batch_;
  const model::ModelShape& shape_;
  at::Device device_;
  data::Partition partition_;
  double share_ = 1;
  std::size_t first_ = 0;  // of this rank's parts
  std::vector<std::optional<Microbatch>> packed_;
};

}  // namespace dpo::train
