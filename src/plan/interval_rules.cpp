#include <fmt/format.h>

#include "base/quantity.h"
#include "plan/rule_facts.h"
#include "plan/rules.h"
#include "plan/units.h"

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
  if (i.asked % batch == 0) return ok(i.id, fmt::format("every {} examples", i.asked));
  if (i.asked < batch) {
    Finding finding = error(
        i.id,
        fmt::format("{}={} is less than batch_size={}: rounded down to a multiple of it, 0 is left, and {}",
                    i.key, i.asked, batch, i.if_zero));
    finding.remedies.push_back({{fmt::format("{}={}", i.key, batch)}, i.smallest});
    return finding;
  }
  Finding finding = warning(i.id, fmt::format("{}={} is not a multiple of batch_size={}: rounded down to {}",
                                              i.key, i.asked, batch, i.used));
  finding.remedies.push_back({{fmt::format("{}={}", i.key, i.used)}, "says what will happen"});
  return finding;
}

}  // namespace

std::optional<Finding> eval_every(const Facts& f) {
  constexpr const char* id = "eval-every";
  if (!f.run.eval_every) return ok(id, "null: nothing is evaluated, and no evaluation data is read");
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
  return hint(id,
              "null, and so is eval_every: the only checkpoint is that of the end; a run that is killed "
              "before it has none to resume from (save_every=N saves after every N examples)");
}

std::optional<Finding> best_metric(const Facts& f) {
  constexpr const char* id = "best-metric";
  if (!f.run.best_metric) return std::nullopt;
  const std::optional<std::int64_t>& evaluated = f.plan.resolved.eval_every;
  const std::optional<std::int64_t>& saved = f.plan.resolved.save_every;
  if (!evaluated) {
    Finding finding =
        error(id, fmt::format("best_metric={} is a metric of the evaluation, and eval_every=null "
                              "switches that off",
                              *f.run.best_metric));
    finding.remedies.push_back({{"best_metric=null"}, "no best checkpoint"});
    return finding;
  }
  if (*saved % *evaluated == 0) return ok(id, fmt::format("the best checkpoint by {}", *f.run.best_metric));
  Finding finding = error(
      id, fmt::format("best_metric={} compares checkpoints by their evaluations, and with save_every={} and "
                      "eval_every={} some have none: save_every must be a multiple of eval_every",
                      *f.run.best_metric, *saved, *evaluated));
  finding.remedies.push_back({{fmt::format("save_every={}", nearest_multiples(*saved, *evaluated).above)},
                              "every checkpoint is evaluated"});
  return finding;
}

std::optional<Finding> eval_batch(const Facts& f) {
  constexpr const char* id = "eval-batch";
  if (!f.run.eval_every) return std::nullopt;
  const config::EvaluationSize evaluation = evaluation_of(f.c.in);
  if (!evaluation.note.empty()) return hint(id, evaluation.note);
  const std::int64_t size = f.run.eval_batch_size;
  if (size % f.c.mesh.data_ranks() == 0) return ok(id, fmt::format("eval_batch_size={}", size));
  const Multiples near = nearest_multiples(size, f.c.mesh.data_ranks());
  const std::int64_t better = near.below > 0 ? near.below : near.above;
  Finding finding =
      warning(id, fmt::format("eval_batch_size={} does not divide over {}: some wait while others evaluate",
                              size, data_ranks_text(f)));
  finding.remedies.push_back({{fmt::format("eval_batch_size={}", better)}, "the same number on each"});
  return finding;
}

std::optional<Finding> disk(const Facts& f) {
  constexpr const char* id = "disk";
  const Disk& d = f.plan.disk;
  if (!f.c.in.surroundings.obstacle.empty())
    return error(id,
                 fmt::format("the run folder {} cannot be made: {}; local_run_dir=DIR or local_dirs=[DIR] "
                             "names another place",
                             f.c.in.surroundings.run_folder, f.c.in.surroundings.obstacle));
  const std::string need = fmt::format("{} of {}, {} in all", plural(d.checkpoints, "checkpoint"),
                                       memory_size(d.checkpoint), memory_size(d.total()));
  if (d.checkpoints == 0) return ok(id, "debug: no checkpoints");
  const auto& free = f.c.in.surroundings.free_disk;
  if (!free) return ok(id, need + " (the disk of another machine cannot be looked at)");
  const std::string where =
      fmt::format("; {} are free in {}", memory_size(*free), f.c.in.surroundings.run_folder);
  if (*free >= d.total()) return ok(id, need + where);
  Finding finding = error(id, need + where);
  const auto room = static_cast<std::int64_t>(*free / d.checkpoint);
  if (room >= 1) {
    // With an evaluation for each, which best_metric needs.
    const std::int64_t unit = f.plan.resolved.eval_every.value_or(f.run.batch_size);
    const Multiples every = nearest_multiples(f.plan.timing.examples / room + 1, unit);
    finding.remedies.push_back({{fmt::format("save_every={}", every.above)}, "fewer checkpoints"});
  }
  const std::int64_t kept = room - 1 - (f.run.best_metric ? 1 : 0);  // beside the best and a new one
  if (kept >= 1)
    finding.remedies.push_back({{fmt::format("keep_last={}", kept)}, "only the newest are kept"});
  return finding;
}

// A copy of the checkpoint waits there to be written; the machines of one replica hold it together.
std::optional<Finding> host_memory(const Facts& f) {
  constexpr const char* id = "host-memory";
  const auto& memory = f.c.in.surroundings.host_memory;
  if (!memory || f.machine.device.is_cpu || f.plan.disk.checkpoints == 0) return std::nullopt;
  const double copy =
      f.plan.disk.checkpoint / to_double(std::max<std::int64_t>(1, f.machine.nodes / f.c.mesh.replica));
  const std::string text = fmt::format("a checkpoint is copied to the host's memory: {} of {}",
                                       memory_size(copy), memory_size(*memory));
  constexpr double kMost = 0.9, kMuch = 0.7;
  if (copy > kMost * *memory) return error(id, text + ", which does not hold it");
  return copy > kMuch * *memory ? warning(id, text) : ok(id, text);
}

}  // namespace dpo::plan
