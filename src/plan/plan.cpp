#include "plan/plan.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "plan/rules.h"

namespace dpo::plan {
namespace {

// Returns an interval of examples, rounded down to whole batches. Less than one batch is an error of a rule.
std::optional<std::int64_t> in_batches(const std::optional<std::int64_t>& every, std::int64_t batch) {
  if (!every) return std::nullopt;
  return std::max(batch, *every / batch * batch);
}

double checkpoint_bytes(const Workload& w) {
  const ElementBytes& p = w.bytes;
  const model::TensorTable& trained = w.in.trained();
  return to_double(trained.count() * p.stored) + optimizer_values(w.in.run.optimizer, trained) * p.state;
}

Disk disk_of(const Workload& w, const Timing& timing) {
  Disk disk;
  if (w.in.run.debug) return disk;
  disk.checkpoint = checkpoint_bytes(w);
  disk.checkpoints = std::max<std::int64_t>(1, timing.checkpoints);
  // The disk holds the kept checkpoints, the best, and the one being written: an old one is deleted only when
  // that is complete.
  if (w.in.run.keep_last)
    disk.checkpoints = std::min(disk.checkpoints, *w.in.run.keep_last + (w.in.run.best_metric ? 1 : 0) + 1);
  if (w.in.run.adapter.merge_on_save) disk.merged = to_double(w.in.table->count() * w.bytes.weights);
  return disk;
}

Plan assess_with(const Inputs& in, ReferenceMode if_auto) {
  const Workload w = make_workload(in, if_auto);
  Plan plan;
  plan.resolved = in.run;
  plan.resolved.eval_every = in_batches(in.run.eval_every, in.run.batch_size);
  plan.resolved.save_every =
      in.run.save_every ? in_batches(in.run.save_every, in.run.batch_size) : plan.resolved.eval_every;
  plan.mesh = w.mesh;
  plan.on_cpu = w.machine.device.is_cpu;
  plan.ranks_per_device = w.ranks_per_device();
  plan.reference = w.reference;
  plan.resolved.activation_checkpointing.count = w.recomputed_layers;
  plan.resolved.fsdp_reshard = w.reshard;
  plan.examples_per_gpu = w.examples;
  plan.tokens_per_gpu = w.tokens;
  plan.example = w.example;
  plan.memory = memory_per_gpu(w);
  plan.timing = timing_of(w, {plan.resolved.eval_every, plan.resolved.save_every, checkpoint_bytes(w)});
  plan.disk = disk_of(w, plan.timing);
  plan.findings = check_rules(w, plan);
  return plan;
}

// Makes the plan for these lengths, even if they are those of other data.
Plan assess_lengths(const Inputs& in) {
  Plan plan = assess_with(in, ReferenceMode::live);
  const bool undecided = plan.reference == ReferenceMode::live &&
                         in.run.reference == config::ReferenceScoring::automatic && can_cache(in.run.loss);
  // Cached scores serve all epochs, and free the memory of the reference.
  const bool several_epochs = plan.timing.examples > unit_of(in.run.loss, in.lengths).in_epoch;
  const bool is_tight = !plan.fits() || (in.run.activation_checkpointing.is_automatic() &&
                                         plan.resolved.activation_checkpointing.count > 0);
  if (undecided && (several_epochs || is_tight)) return assess_with(in, ReferenceMode::cached);
  return plan;
}

// Turns errors into warnings if the lengths are those of other data and some data would not have the error.
void demote_guessed_errors(Plan& plan, const Inputs& in) {
  for (const Lengths& lengths : extreme_lengths(in.run.max_length, in.run.batch_size)) {
    Inputs other = in;
    other.lengths = lengths;
    const Plan possible = assess_lengths(other);
    for (Finding& finding : plan.findings) {
      const Finding* there = possible.find(finding.id);
      if (finding.verdict != Verdict::error || (there && there->verdict == Verdict::error)) continue;
      finding.verdict = Verdict::warning;
      finding.message +=
          fmt::format("; only a warning, since it depends on the statistics of {}", in.lengths.name);
    }
  }
}

bool is_for_this_machine(const Remedy& remedy) {
  return std::none_of(remedy.overrides.begin(), remedy.overrides.end(),
                      [](const std::string& part) { return part == "--gpus" || part == "--device"; });
}

}  // namespace

bool Plan::has(Verdict verdict) const {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& f) { return f.verdict == verdict; });
}

const Finding* Plan::find(std::string_view id) const {
  const auto it =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.id == id; });
  return it == findings.end() ? nullptr : &*it;
}

void require_full_batch(const Plan& plan) {
  const Finding* const finding = plan.find(kFullBatch);
  if (!finding || finding->verdict != Verdict::error) return;
  std::string problem = finding->message;
  for (const Remedy& remedy : finding->remedies)
    problem += fmt::format("; try {} ({})", fmt::join(remedy.overrides, " "), remedy.reason);
  throw UserError(problem);
}

Plan assess(const Inputs& in) {
  Plan plan = assess_lengths(in);
  if (!in.unmeasured.empty() && plan.has(Verdict::error)) demote_guessed_errors(plan, in);
  return plan;
}

Plan make_plan(const Inputs& in) {
  const Plan assessed = assess(in);
  Plan plan = assessed;
  for (Finding& finding : plan.findings) {
    if (finding.verdict == Verdict::ok) continue;
    finding.remedies = remedies_for(finding, assessed, in);
    const bool here = std::any_of(finding.remedies.begin(), finding.remedies.end(), is_for_this_machine);
    if (finding.id == "memory" && !here) finding.message += "; " + least_memory_needed(in);
  }
  return plan;
}

}  // namespace dpo::plan
