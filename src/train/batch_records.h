#pragma once

#include <vector>

#include "data/forest.h"
#include "loss/loss.h"
#include "shard/mesh.h"
#include "train/records.h"

namespace dpo::train {

// The records of a batch's examples, which ranks have computed parts of.
class BatchRecords {
 public:
  explicit BatchRecords(const ExampleBatch& batch);

  // Those of a forest's examples.
  void add(const data::Forest& forest, const std::vector<Record>& records);

  // All of them, in the order of the batch, the same on every rank. Every rank takes part.
  std::vector<Record> exchanged(const shard::Mesh& mesh) const;

 private:
  const ExampleBatch& batch_;
  std::vector<std::size_t> starts_;  // of each example in numbers_
  std::vector<double> numbers_;      // the loss, then of every response log-probabilities and tokens
};

// A batch as the loss sees it: every example with responses of its own, in the order of the batch, without
// tokens.
data::Forest listed(const ExampleBatch& batch);

// The scores of the responses of listed(batch).
std::vector<loss::Score> listed_scores(const std::vector<Record>& records);

// What the gradients by response of listed(batch) are for the responses of a forest, where examples may share
// some.
std::vector<double> gradients_in(const data::Forest& forest, const data::Forest& listed,
                                 const std::vector<double>& gradients);

}  // namespace dpo::train
