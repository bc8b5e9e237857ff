#include "run/best.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/quantity.h"
#include "base/sha256.h"
#include "base/user_path.h"

namespace dpo::run {
namespace {

std::string text_of(const Comparison& comparison) {
  return fmt::format("{} of {}", comparison.metric,
                     comparison.set.empty() ? "examples that an older dpo did not record" : comparison.set);
}

}  // namespace

std::string set_of(std::span<const train::ExampleBatch> evaluation) {
  std::vector<std::string> sums;
  for (const train::ExampleBatch& batch : evaluation)
    for (const data::Example& example : batch.examples) {
      Sha256 sum;
      data::add_example(sum, example);
      sums.push_back(to_hex(sum.finish()));
    }
  std::ranges::sort(sums);
  Sha256 all;
  for (const std::string& sum : sums) all.add(sum);
  return fmt::format("{} with SHA-256 {}", plural(static_cast<std::int64_t>(sums.size()), "example"),
                     to_hex(all.finish()).substr(0, 16));
}

void begin_comparison(RunState& run_state, const config::RunConfig& config,
                      std::span<const train::ExampleBatch> evaluation, const train::Listener& listener) {
  if (!config.best_metric) return;
  const Comparison now{name_of(*config.best_metric), set_of(evaluation)};
  if (run_state.comparison == now) return;
  if (run_state.best) {
    const std::string step =
        run_state.best_examples ? fmt::format("step-{}", *run_state.best_examples) : "the best so far";
    listener.say(
        fmt::format("note: {} is the best by {}, but this run compares by {}: a new comparison begins, and "
                    "keep_last keeps {}; a link {}.old-N will point to it",
                    step, text_of(run_state.comparison), text_of(now), step, kBest));
  }
  run_state.comparison = now;
  run_state.best.reset();
  run_state.best_examples.reset();
}

bool is_new_best(RunState& run_state, const Metrics& metrics, const config::RunConfig& config) {
  if (!config.best_metric) return false;
  const double value = value_of(metrics, name_of(*config.best_metric));
  const bool lower = config.best_metric == config::BestMetric::loss;
  const std::optional<double>& best = run_state.best;
  if (std::isnan(value) || (best && (lower ? value >= *best : value <= *best))) return false;
  run_state.best = value;
  run_state.best_examples = run_state.examples;
  return true;
}

}  // namespace dpo::run
