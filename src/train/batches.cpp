#include "train/batches.h"

#include <algorithm>

namespace dpo::train {
namespace {

std::vector<Indices> all_of(data::ExampleOrder order) {
  std::vector<Indices> batches;
  while (auto indices = order.next()) batches.push_back(std::move(*indices));
  return batches;
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

Microbatches::Microbatches(const ExampleBatch& batch, std::int64_t count, const shard::Mesh& mesh,
                           const model::ModelShape& shape, at::Device device)
    : batch_(batch), shape_(shape), device_(device), packed_(static_cast<std::size_t>(count)) {
  const auto parts = data::partition_batch(batch.examples, count * mesh.data->size(), /*budget=*/0).parts;
  share_ =
      1.0 / static_cast<double>(std::ranges::count_if(parts, [](const auto& part) { return !part.empty(); }));
  const auto first = parts.begin() + mesh.data->rank() * count;
  examples_.assign(first, first + count);
}

const Microbatch& Microbatches::at(std::size_t i) {
  if (!packed_[i]) {
    data::Forest forest = data::make_forest(batch_.examples, examples_[i]);
    model::Batch packed = model::make_batch(
        forest, shape_, device_, {.multiple = model::padded_multiple(forest.size(), shape_, device_)});
    packed_[i] = {std::move(forest), std::move(packed)};
  }
  return *packed_[i];
}

}  // namespace dpo::train
