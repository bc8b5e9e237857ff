#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/random.h"

namespace dpo::data {

// Limits of the order, in epochs or in examples.
struct OrderLimits {
  std::int64_t batch_size = 1;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> examples;
  // If true, no example is dropped. All of one epoch, or the first `examples`, are divided into batches of at
  // most `batch_size` whose sizes differ by at most one.
  bool keeps_all = false;
};

// The order of examples, batch by batch, as in the original. Every epoch shuffles the prompts of the epoch
// before, and the examples of a prompt stay together. The partial batch at the end of an epoch is dropped,
// but its examples count towards the limit.
class ExampleOrder {
 public:
  // `starts`: [prompts + 1], the first example of each prompt.
  ExampleOrder(std::span<const std::uint32_t> starts, std::uint32_t seed, OrderLimits limits);

  // Returns the indices of the examples in the next batch, or nullopt at the end.
  std::optional<std::vector<std::uint32_t>> next();

  std::int64_t epoch() const { return epoch_; }

 private:
  void begin_epoch();
  bool is_over() const;
  std::int64_t next_size() const;

  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> prompts_;  // in the order of this epoch
  NumpyLegacyRandom epoch_seeds_;
  OrderLimits limits_;
  std::int64_t epoch_ = -1;
  std::int64_t given_ = 0;
  std::size_t at_ = 0;         // index into prompts_
  std::uint32_t example_ = 0;  // index of the next example within that prompt
};

}  // namespace dpo::data
