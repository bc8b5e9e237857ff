#include "config/evaluation.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/quantity.h"

namespace dpo::config {

EvaluationSize evaluation_size(const RunConfig& run, std::int64_t test_examples) {
  const std::int64_t asked = std::max(run.eval_batch_size, run.n_eval_examples);
  if (test_examples == 0 || test_examples >= asked) return {run.eval_batch_size, run.n_eval_examples};
  const auto ceiling = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t batches = ceiling(test_examples, run.eval_batch_size);
  const bool few = run.n_eval_examples <= test_examples;  // and fewer than a batch
  return {ceiling(test_examples, batches), few ? run.n_eval_examples : test_examples, !few,
          fmt::format("{}={}: the test split has only {}, so an evaluation uses each of them once "
                      "(data.test_share=0.1 keeps a tenth of your own files for testing)",
                      few ? "eval_batch_size" : "n_eval_examples",
                      few ? run.eval_batch_size : run.n_eval_examples, plural(test_examples, "example"))};
}

}  // namespace dpo::config
