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

ExampleBatch OrderedBatches::next(std::int64_t update) {
  return batch_of(examples_, data::Split::Train, batches_.at(static_cast<std::size_t>(update)));
}

std::vector<Microbatch> split_batch(const ExampleBatch& batch, std::int64_t microbatches,
                                    const shard::Mesh& mesh, const model::ModelShape& shape,
                                    at::Device device) {
  const auto parts =
      data::partition_batch(batch.examples, microbatches * mesh.data->size(), /*budget=*/0).parts;
  const auto filled = std::ranges::count_if(parts, [](const auto& part) { return !part.empty(); });
  const std::int64_t first = mesh.data->rank() * microbatches;
  std::vector<Microbatch> own;
  for (std::int64_t i = first; i < first + microbatches; ++i) {
    data::Forest forest = data::make_forest(batch.examples, parts[static_cast<std::size_t>(i)]);
    model::Batch packed = model::make_batch(forest, shape, device);
    own.push_back({std::move(forest), std::move(packed), 1.0 / static_cast<double>(filled)});
  }
  return own;
}

}  // namespace dpo::train
