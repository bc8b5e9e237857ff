#include "config/evaluation.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/quantity.h"

namespace dpo::config {

EvaluationSize evaluation_size(const RunConfig& run, std::int64_t test_examples) {
  if (test_examples == 0 || test_examples >= run.eval_batch_size)
    return {run.eval_batch_size, run.n_eval_examples};
  return {
      test_examples, std::min(test_examples, run.n_eval_examples),
      fmt::format(
          "eval_batch_size={}: the test split has only {}, so an evaluation uses all of them in one batch "
          "(data.test_share=0.1 keeps a tenth of your own files for testing)",
          run.eval_batch_size, plural(test_examples, "example"))};
}

}  // namespace dpo::config
