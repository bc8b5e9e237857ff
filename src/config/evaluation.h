#pragma once

#include <cstdint>
#include <string>

#include "config/run_config.h"

namespace dpo::config {

// What an evaluation uses: eval_batch_size and n_eval_examples. Of a test split with fewer, each example
// once, in batches of about equal size; then `note` says so.
struct EvaluationSize {
  std::int64_t batch = 0, examples = 0;
  bool is_whole_split = false;
  std::string note = {};
};

EvaluationSize evaluation_size(const RunConfig& run, std::int64_t test_examples);

}  // namespace dpo::config
