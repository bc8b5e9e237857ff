#pragma once

#include <cstdint>
#include <string>

#include "config/run_config.h"

namespace dpo::config {

// The examples of an evaluation: n_eval_examples of the test split, or all if it has fewer (`note` then
// reports it). Each is evaluated once, in batches whose sizes differ by at most one.
struct EvaluationSize {
  std::int64_t batch = 0;  // largest batch, at most eval_batch_size
  std::int64_t examples = 0;
  std::string note = {};

  std::int64_t smallest_batch() const { return examples / ((examples + batch - 1) / batch); }
};

// `test_examples` is 0 if their number is unknown.
EvaluationSize evaluation_size(const RunConfig& run, std::int64_t test_examples);

}  // namespace dpo::config
