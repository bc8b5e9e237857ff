#include "train/microbatch.h"

namespace dpo::train {

std::vector<Microbatch> divide_batch(const ExampleBatch& batch, const Division& division,
                                     const model::Shape& shape, at::Device device) {
  const auto all = data::partition_batch(batch.examples, division.parts * division.ranks, /*budget=*/0).parts;
  std::vector<Microbatch> made;
  for (std::int64_t part = 0; part < division.parts; ++part) {
    const auto& examples = all[static_cast<std::size_t>(division.rank * division.parts + part)];
    data::Forest forest = data::make_forest(batch.examples, examples);
    model::Batch packed = model::make_batch(forest, shape, device);
    made.push_back({std::move(forest), std::move(packed)});
  }
  return made;
}

}  // namespace dpo::train
