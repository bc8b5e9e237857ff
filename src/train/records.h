// train: the update, the run around it, evaluation, reference scores, metrics.
#pragma once

#include <cstdint>
#include <vector>

#include "data/example.h"
#include "data/source.h"

namespace dpo::train {

// Examples of a split, by number.
struct ExampleBatch {
  data::Split split = data::Split::Train;
  std::vector<std::uint32_t> numbers;
  std::vector<data::Example> examples;
};

// What is known of an example after a pass: its loss times its weight, and of its responses, the better
// first, the summed log-probabilities.
struct Record {
  std::uint32_t example = 0;
  double loss = 0;
  std::vector<double> policy;
  std::vector<double> reference;  // zeros without one
  std::vector<std::int64_t> tokens;
};

}  // namespace dpo::train
