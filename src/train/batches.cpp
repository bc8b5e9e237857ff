#include "train/batches.h"

namespace dpo::train {
namespace {

std::vector<Numbers> all_of(data::ExampleOrder order) {
  std::vector<Numbers> batches;
  while (auto numbers = order.next()) batches.push_back(std::move(*numbers));
  return batches;
}

}  // namespace

std::vector<Numbers> training_batches(const data::Examples& train, const config::RunConfig& config) {
  return all_of(data::training_order(train.list(), config));
}

std::vector<Numbers> evaluation_batches(const data::Examples& test, const config::RunConfig& config) {
  return all_of(data::evaluation_order(test.list(), config));
}

ExampleBatch batch_of(const data::Examples& examples, data::Split split, const Numbers& numbers) {
  ExampleBatch batch{split, numbers, {}};
  for (const std::uint32_t number : numbers) batch.examples.push_back(examples.at(number));
  return batch;
}

ExampleBatch OrderedBatches::next(std::int64_t update) {
  return batch_of(examples_, data::Split::Train, batches_.at(static_cast<std::size_t>(update)));
}

}  // namespace dpo::train
