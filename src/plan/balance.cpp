#include "plan/balance.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/balance.h"
#include "model/spec/cost.h"

namespace dpo::plan {
namespace {

constexpr std::int64_t kTrees = 1024;      // sampled, about
constexpr std::int64_t kMostBatches = 16;  // sampled
constexpr double kMany = 16;               // this many trees in a part differ by less than 1 %

// A batch with fewer microbatches and the same number of trees in each.
struct SampledBatch {
  std::int64_t trees = 0, microbatches = 0;
};

SampledBatch sampled_batch(const config::RunConfig& run) {
  const std::int64_t microbatches = run.gradient_accumulation_steps;
  const std::int64_t trees = std::max<std::int64_t>(1, run.batch_size / microbatches);  // in a microbatch
  const std::int64_t sampled = std::clamp<std::int64_t>(kTrees / trees, 1, microbatches);
  return {sampled == microbatches ? run.batch_size : trees * sampled, sampled};
}

std::vector<TreeCost> sample_trees(const Workload& w, const UnitCosts& costs, std::int64_t count,
                                   std::mt19937_64& random) {
  const config::RunConfig& run = w.in.run;
  const ResponseCount responses = unit_of(run.loss, w.in.lengths).responses;
  std::vector<TreeCost> trees;
  for (std::int64_t i = 0; i < count; ++i) {
    const SampledExample example =
        sample_example(w.in.lengths, run.max_length, run.max_prompt_length, responses, random);
    TreeCost& tree = trees.emplace_back(TreeCost{prompt_cost(costs, example.prompt)});
    for (const std::int64_t tokens : example.responses)
      tree.responses.push_back(response_cost(costs, example.prompt, tokens,
                                             std::llround(to_double(tokens) * w.in.lengths.scored)));
  }
  return trees;
}

}  // namespace

double slowest_rank(const Workload& w) {
  const Lengths& lengths = w.in.lengths;
  const bool is_known = !lengths.prompt.empty() && !lengths.response.empty();
  if (w.mesh.data_ranks() == 1 || w.examples > kMany || !is_known) return 1;
  const bool has_balance_loss = w.in.run.model.router_aux_loss_coef.has_value();
  const UnitCosts costs = has_balance_loss ? UnitCosts() : model::unit_costs(*w.in.table, w.in.shape);
  const SampledBatch batch = sampled_batch(w.in.run);
  const std::int64_t batches = std::clamp<std::int64_t>(kTrees / batch.trees, 1, kMostBatches);
  std::mt19937_64 random(0);
  double sum = 0;
  for (std::int64_t i = 0; i < batches; ++i)
    sum += balance(sample_trees(w, costs, batch.trees, random), w.mesh.data_ranks(), batch.microbatches,
                   has_balance_loss ? Prompts::whole : Prompts::divided)
               .slowest_rank;
  return sum / to_double(batches);
}

Workload with_work(const Workload& w, double times) {
  Workload changed = w;
  changed.tokens *= times;
  changed.response_rows *= times;
  changed.attended *= times;
  return changed;
}

}  // namespace dpo::plan
