#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/balance.h"
#include "data/forest.h"

namespace dpo::data {

struct Division {
  std::int64_t ranks = 1;
  std::int64_t microbatches = 1;
  UnitCosts costs{};
  Prompts prompts = Prompts::divided;
};

// A batch divided into parts of about equal cost.
struct Partition {
  std::vector<Part> parts;           // [rank * microbatches + microbatch]; a part may be empty
  std::vector<bool> has_divided;     // by microbatch: examples are divided over its ranks
  std::int64_t repeated_tokens = 0;  // of prompts that several ranks compute, without the first time
  double slowest_rank = 1;           // its cost over the mean; see dpo::Balance
};

// Divides a batch. The result depends on the arguments only. Every response is in exactly one part. All
// responses of an example are in the same microbatch, and on the same rank unless dpo::balance divides them.
// Examples with an empty prompt are divided over parts wherever they share no response.
Partition partition_batch(std::span<const Example> batch, const Division& division);

}  // namespace dpo::data
