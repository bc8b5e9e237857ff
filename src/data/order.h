#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/random.h"

namespace dpo::data {

// When a walk over the examples ends: after so many epochs, or once so many examples were given out.
struct OrderLimits {
  std::int64_t batch_size = 1;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> examples;
};

// The order of examples, batch by batch, as the original has it: prompts are shuffled every epoch from the
// order of the epoch before; the examples of a prompt follow each other; the partial batch at the end of an
// epoch is left out, but its examples count as given out.
class ExampleOrder {
 public:
  // `starts`: [prompts + 1], the first example of each prompt.
  ExampleOrder(std::span<const std::uint32_t> starts, std::uint32_t seed, OrderLimits limits);

  // The examples of the next batch, by number; nothing at the end.
  std::optional<std::vector<std::uint32_t>> next();

  std::int64_t epoch() const { return epoch_; }

 private:
  void begin_epoch();
  bool is_over() const;

  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> prompts_;  // in the order of this epoch
  NumpyLegacyRandom epoch_seeds_;
  OrderLimits limits_;
  std::int64_t epoch_ = -1;
  std::int64_t given_ = 0;
  std::size_t at_ = 0;         // in prompts_
  std::uint32_t example_ = 0;  // of that prompt
};

}  // namespace dpo::data
