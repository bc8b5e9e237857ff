#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "data/examples.h"
#include "train/records.h"

namespace dpo::train {

using Numbers = std::vector<std::uint32_t>;

// Where the batches of a run come from.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The batch of an update, counted from 0. Updates follow each other; a resumed run starts at a later one.
  // The tokens stay until the next call.
  virtual ExampleBatch next(std::int64_t update) = 0;
};

// The batches of a whole run, and those of each of its evaluations, as numbers of examples.
std::vector<Numbers> training_batches(const data::Examples& train, const config::RunConfig& config);
std::vector<Numbers> evaluation_batches(const data::Examples& test, const config::RunConfig& config);

ExampleBatch batch_of(const data::Examples& examples, data::Split split, const Numbers& numbers);

// The examples of the training split in a fixed order.
class OrderedBatches : public BatchSource {
 public:
  OrderedBatches(const data::Examples& examples, const std::vector<Numbers>& batches)
      : examples_(examples), batches_(batches) {}
  ExampleBatch next(std::int64_t update) override;
  std::int64_t size() const { return static_cast<std::int64_t>(batches_.size()); }

 private:
  const data::Examples& examples_;
  const std::vector<Numbers>& batches_;
};

}  // namespace dpo::train
