#include <fmt/format.h>

#include "base/quantity.h"
#include "plan/rules.h"

namespace dpo::plan {
namespace {

// An interval in examples, as it was asked for and as the run will use it.
struct Interval {
  const char* id;
  const char* key;
  std::int64_t asked, used;
  const char* if_zero;   // what rounding down to 0 would mean
  const char* smallest;  // what the smallest interval does
};

Finding in_whole_batches(const Interval& i, std::int64_t batch) {
  if (i.asked % batch == 0) return ok(i.id, "every " + plural(i.asked, "example"));
  if (i.asked < batch) {
    Finding finding = error(i.id, fmt::format("{}={} is less than batch_size={}: it rounds down to 0, and {}",
                                              i.key, i.asked, batch, i.if_zero));
    finding.remedies.push_back({{fmt::format("{}={}", i.key, batch)}, i.smallest});
    return finding;
  }
  Finding finding = warning(i.id, fmt::format("{}={} is not a multiple of batch_size={}: rounded down to {}",
                                              i.key, i.asked, batch, i.used));
  finding.remedies.push_back({{fmt::format("{}={}", i.key, i.used)}, "the value the run uses"});
  return finding;
}

}  // namespace

std::optional<Finding> eval_every(const Facts& f) {
  constexpr const char* id = "eval-every";
  if (!f.run.eval_every) return ok(id, "null: no evaluation, and no test data is read");
  return in_whole_batches(
      {id, "eval_every", *f.run.eval_every, *f.plan.resolved.eval_every,
       f.run.save_every ? "there would be no evaluation" : "there would be no evaluation and no checkpoint",
       "evaluate after every update"},
      f.run.batch_size);
}

std::optional<Finding> save_every(const Facts& f) {
  constexpr const char* id = "save-every";
  if (f.run.debug) return std::nullopt;
  if (f.run.save_every)
    return in_whole_batches({id, "save_every", *f.run.save_every, *f.plan.resolved.save_every,
                             "there would be no checkpoint before the end", "save after every update"},
                            f.run.batch_size);
  if (f.run.eval_every) return std::nullopt;
  return hint(
      id,
      "save_every and eval_every are null: the only checkpoint is written at the end, so a run killed "
      "before that cannot resume (save_every=N saves every N examples)");
}

std::optional<Finding> best_metric(const Facts& f) {
  constexpr const char* id = "best-metric";
  if (!f.run.best_metric) return std::nullopt;
  const std::optional<std::int64_t>& evaluated = f.plan.resolved.eval_every;
  const std::optional<std::int64_t>& saved = f.plan.resolved.save_every;
  if (!evaluated) {
    Finding finding =
        error(id, fmt::format("best_metric={} is an evaluation metric, but eval_every=null turns "
                              "evaluation off",
                              name_of(*f.run.best_metric)));
    finding.remedies.push_back({{"best_metric=null"}, "no best checkpoint"});
    return finding;
  }
  const Lengths& known = f.w.in.lengths;
  using config::BestMetric;
  const bool needs_pairs =
      f.run.best_metric == BestMetric::accuracies || f.run.best_metric == BestMetric::margins;
  if (needs_pairs && known.test_labels > 0 && known.test_pairs == 0) {
    Finding finding =
        error(id, fmt::format("best_metric={} compares pairs, but the test split has labelled responses only",
                              name_of(*f.run.best_metric)));
    finding.remedies.push_back({{"best_metric=loss/eval"}, "the lowest loss"});
    return finding;
  }
  if (*saved % *evaluated == 0)
    return ok(id, fmt::format("keeps the best checkpoint by {}", name_of(*f.run.best_metric)));
  Finding finding =
      error(id, fmt::format("best_metric={} needs an evaluation of every checkpoint: save_every={} must be a "
                            "multiple of eval_every={}",
                            name_of(*f.run.best_metric), *saved, *evaluated));
  finding.remedies.push_back({{fmt::format("save_every={}", nearest_multiples(*saved, *evaluated).above)},
                              "every checkpoint is evaluated"});
  return finding;
}

std::optional<Finding> eval_batch(const Facts& f) {
  constexpr const char* id = "eval-batch";
  if (!f.run.eval_every) return std::nullopt;
  const config::EvaluationSize evaluation = evaluation_of(f.w.in);
  if (!evaluation.note.empty()) return hint(id, evaluation.note);
  const std::int64_t size = f.run.eval_batch_size;
  if (size % f.w.mesh.data_ranks() == 0) return ok(id, fmt::format("eval_batch_size={}", size));
  const Multiples near = nearest_multiples(size, f.w.mesh.data_ranks());
  const std::int64_t better = near.below > 0 ? near.below : near.above;
  Finding finding = warning(
      id, fmt::format("eval_batch_size={} does not divide evenly over {}: some wait while others evaluate",
                      size, data_ranks_text(f)));
  finding.remedies.push_back({{fmt::format("eval_batch_size={}", better)}, "the same number on each"});
  return finding;
}

}  // namespace dpo::plan
