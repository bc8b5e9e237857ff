#include "train/microbatch.h"

#include "data/split.h"

namespace dpo::train {

std::vector<Microbatch> divide_batch(const ExampleBatch& batch, std::int64_t parts, const model::Shape& shape,
                                     at::Device device) {
  std::vector<Microbatch> made;
  for (const auto& examples : data::divide(batch.examples, parts, /*budget=*/0).parts) {
    if (examples.empty()) continue;
    data::Forest forest = data::make_forest(batch.examples, examples);
    model::Batch packed = model::make_batch(forest, shape, device);
    made.push_back({std::move(forest), std::move(packed)});
  }
  return made;
}

}  // namespace dpo::train
