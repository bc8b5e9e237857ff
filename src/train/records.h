// Converts log-probabilities of responses to the comparisons of a loss and to the records of examples.
#pragma once

#include <cstdint>
#include <vector>

#include "data/examples.h"
#include "data/forest.h"
#include "loss/loss.h"
#include "shard/mesh.h"
#include "train/batches.h"

namespace dpo::train {

// An example after a forward pass: its loss times its weight, and the summed log-probabilities of its
// responses, the preferred first.
struct Record {
  std::uint32_t example = 0;
  double loss = 0;
  std::vector<double> policy;
  std::vector<double> reference;  // zeros without one
  std::vector<std::int64_t> tokens;
  bool desirable = true;  // for an unpaired loss with one response: true if it is good
};

// Returns the loss's comparisons for the examples of a forest, which is a part of the batch. An unpaired loss
// has one comparison for each response.
std::vector<loss::Comparison> comparisons_of(const data::Forest& forest, const ExampleBatch& batch,
                                             const config::LossConfig& loss);

// Returns how many comparisons a whole batch has.
std::size_t count_comparisons(const ExampleBatch& batch, const config::LossConfig& loss);

// Returns the scores of a forest's responses, as the loss takes them. Those of responses in other parts of
// the batch are zeros.
std::vector<loss::Score> scores_of(const data::Forest& forest, const std::vector<double>& policy,
                                   const std::vector<double>& reference);

// Returns the records of a forest's examples. `losses` are those of its comparisons, or empty if not yet
// known. The loss of an example is zero if another part of the batch has its first response.
std::vector<Record> records_of(const data::Forest& forest, const std::vector<loss::Score>& scores,
                               const std::vector<double>& losses, const ExampleBatch& batch);

// Fills in the scores of responses that other ranks compute. A collective call, also for an empty forest.
void exchange_scores(const data::Forest& forest, std::vector<loss::Score>& scores, const ExampleBatch& batch,
                     const shard::Mesh& mesh);

// Collects the records of a batch's examples. If ranks divide an example, each adds the scores of its
// responses, and the one with the first response adds the loss.
class BatchRecords {
 public:
  explicit BatchRecords(const ExampleBatch& batch);

  // Adds the records of a forest's examples.
  void add(const data::Forest& forest, const std::vector<Record>& records);

  // Starts to gather the records of all ranks, and to sum further numbers. A collective call.
  shard::PendingSums start_gathering(const shard::Mesh& mesh, std::span<const double> numbers = {}) const;
  // Returns the gathered records in batch order. The further numbers are at the end of `sums`.
  std::vector<Record> gathered(std::span<const double> sums) const;
  // Gathers the records at once.
  std::vector<Record> gather(const shard::Mesh& mesh) const;

 private:
  const ExampleBatch& batch_;
  std::vector<std::size_t> starts_;  // of each example in values_
  std::vector<double> values_;       // the loss, then log-probabilities and tokens of each response
};

// Returns the batch as a forest without tokens in which examples share no responses. It has all examples in
// batch order.
data::Forest unshared_forest(const ExampleBatch& batch);

// Returns the scores of the unshared forest's responses.
std::vector<loss::Score> unshared_scores(const std::vector<Record>& records);

// Converts gradients by response of the unshared forest to gradients by response of `forest`. If examples
// share a response, their gradients are added.
std::vector<double> shared_gradients(const data::Forest& forest, const data::Forest& unshared,
                                     const std::vector<double>& gradients);

// Throws a UserError if the data has margins that the loss would ignore.
void check_margins(const data::Examples& examples, const config::LossConfig& loss);

}  // namespace dpo::train
