#include "config/evaluation.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/quantity.h"
#include "config/schema.h"

namespace dpo::config {
namespace {

// Returns "" for the default, which the user did not request.
std::string wish_of(const RunConfig& run) {
  if (has_default(run, *find_field("n_eval_examples"))) return "";
  return fmt::format(", fewer than n_eval_examples={}", run.n_eval_examples);
}

}  // namespace

EvaluationSize evaluation_size(const RunConfig& run, std::int64_t test_examples) {
  const auto ceiling = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool has_enough = test_examples == 0 || test_examples >= run.n_eval_examples;
  const std::int64_t examples = has_enough ? run.n_eval_examples : test_examples;
  const std::int64_t batch = ceiling(examples, ceiling(examples, run.eval_batch_size));
  if (has_enough) return {batch, examples};
  return {batch, examples,
          fmt::format("the test split has only {}{}: an evaluation uses each of them once",
                      plural(test_examples, "example"), wish_of(run))};
}

}  // namespace dpo::config
