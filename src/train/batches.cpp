#include "train/batches.h"

#include <algorithm>

#include "model/spec/cost.h"

namespace dpo::train {
namespace {

std::vector<Indices> all_of(data::ExampleOrder order) {
  std::vector<Indices> batches;
  while (auto indices = order.next()) batches.push_back(std::move(*indices));
  return batches;
}

// The microbatches of a single rank follow one another. So their division changes only their memory, which
// depends on their tokens.
data::Division division_of(Splitting splitting, std::int64_t ranks, const model::Model& model) {
  const bool by_tokens = ranks == 1 || splitting.has_balance_loss;
  return {.ranks = ranks,
          .microbatches = splitting.microbatches,
          .costs = by_tokens ? UnitCosts() : model::unit_costs(model.table, model.config.shape),
          .prompts = by_tokens ? Prompts::whole : Prompts::divided};
}

}  // namespace

ExampleBatch batch_of(const data::Examples& examples, data::Split split, const Indices& indices) {
  ExampleBatch batch{split, indices, {}};
  for (const std::uint32_t index : indices) batch.examples.push_back(examples.at(index));
  return batch;
}

std::vector<Indices> training_batches(const data::Examples& train, const config::RunConfig& config) {
  return all_of(data::training_order(train.list(), config));
}

std::vector<Indices> evaluation_batches(const data::Examples& test, const config::RunConfig& config) {
  return all_of(data::evaluation_order(test.list(), config));
}

Microbatches::Microbatches(const ExampleBatch& batch, Splitting splitting, const shard::Mesh& mesh,
                           const model::Model& model, at::Device device)
    : batch_(batch),
      shape_(model.config.shape),
      device_(device),
      partition_(data::partition_batch(batch.examples, division_of(splitting, mesh.data->size(), model))),
      first_(static_cast<std::size_t>(mesh.data->rank() * splitting.microbatches)),
      packed_(static_cast<std::size_t>(splitting.microbatches)) {
  share_ = 1.0 / static_cast<double>(std::ranges::count_if(
                     partition_.parts, [](const data::Part& part) { return !part.examples.empty(); }));
}

const Microbatch& Microbatches::at(std::size_t i) {
  if (!packed_[i]) {
    data::Forest forest = data::make_forest(batch_.examples, partition_.parts[first_ + i]);
    model::Batch packed = model::make_batch(
        forest, shape_, device_, {.multiple = model::padded_multiple(forest.size(), shape_, device_)});
    packed_[i] = {std::move(forest), std::move(packed)};
  }
  return *packed_[i];
}

}  // namespace dpo::train
