#include "config/evaluation.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/quantity.h"

namespace dpo::config {

EvaluationSize evaluation_size(const RunConfig& run, std::int64_t test_examples) {
  const auto ceiling = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool has_enough = test_examples == 0 || test_examples >= run.n_eval_examples;
  const std::int64_t examples = has_enough ? run.n_eval_examples : test_examples;
  const std::int64_t batch = ceiling(examples, ceiling(examples, run.eval_batch_size));
  if (has_enough) return {batch, examples};
  return {
      batch, examples,
      fmt::format("n_eval_examples={}: the test split has only {}, so an evaluation uses each of them once "
                  "(data.test_share=0.1 keeps a tenth of your own files for testing)",
                  run.n_eval_examples, plural(test_examples, "example"))};
}

}  // namespace dpo::config
