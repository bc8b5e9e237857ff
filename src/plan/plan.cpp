#include "plan/plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plan/remedies.h"
#include "plan/rules.h"
#include "plan/units.h"

namespace dpo::plan {
namespace {

bool is_basic(const config::RunConfig& run) { return run.trainer == "BasicTrainer"; }

// BasicTrainer is one process, however many devices there are, unless a launcher started more.
std::int64_t ranks_of(const Machine& machine, const config::RunConfig& run) {
  return is_basic(run) && !machine.launched ? 1 : machine.ranks();
}

Reference reference_of(const config::RunConfig& run, Reference if_auto) {
  if (!needs_reference(run.loss)) return Reference::none;
  if (run.reference == "live") return Reference::live;
  return run.reference == "cached" ? Reference::cached : if_auto;
}

// Several examples of random length: the mean and three deviations of their sum, within what is possible.
double peak_of(double mean, double deviation, double largest, double examples) {
  return std::min(largest * std::max(1.0, examples), mean * examples + 3 * deviation * std::sqrt(examples));
}

// An interval of examples, rounded down to whole batches. Where nothing is left of it, a rule says so.
std::optional<std::int64_t> in_batches(const std::optional<std::int64_t>& every, std::int64_t batch) {
  if (!every) return std::nullopt;
  return std::max(batch, *every / batch * batch);
}

double checkpoint_bytes(const Case& c) {
  const Precision& p = c.precision;
  const double kept = to_double(p.master > 0 ? p.master : p.weights);
  return to_double(c.in.table->count()) * kept +
         optimizer_values(c.in.run.optimizer, *c.in.table) * to_double(p.state);
}

Disk disk_of(const Case& c, const Timing& timing) {
  Disk disk;
  if (c.in.run.debug) return disk;
  disk.checkpoint = checkpoint_bytes(c);
  disk.checkpoints = std::max<std::int64_t>(1, timing.checkpoints);
  // Those that are kept, the best, and the one that is being written: an old one goes only when that is
  // there.
  if (c.in.run.keep_last)
    disk.checkpoints = std::min(disk.checkpoints, *c.in.run.keep_last + (c.in.run.best_metric ? 1 : 0) + 1);
  return disk;
}

Plan assess_with(const Inputs& in, Reference if_auto) {
  const Case c = make_case(in, if_auto);
  Plan plan;
  plan.resolved = in.run;
  plan.resolved.eval_every = in_batches(in.run.eval_every, in.run.batch_size);
  plan.resolved.save_every =
      in.run.save_every ? in_batches(in.run.save_every, in.run.batch_size) : plan.resolved.eval_every;
  plan.mesh = c.mesh;
  plan.on_cpu = c.machine.device.is_cpu;
  plan.reference = c.reference;
  plan.precision = c.precision;
  plan.examples_per_gpu = c.examples;
  plan.tokens_per_gpu = c.tokens;
  plan.example = c.example;
  plan.memory = memory_per_gpu(c);
  plan.timing = timing_of(c, {plan.resolved.eval_every, plan.resolved.save_every, checkpoint_bytes(c)});
  plan.disk = disk_of(c, plan.timing);
  plan.findings = check_rules(c, plan);
  return plan;
}

// The plan by the lengths that there are, whoever's they are.
Plan assess_known(const Inputs& in) {
  Plan plan = assess_with(in, Reference::live);
  const bool open = plan.reference == Reference::live && in.run.reference == "auto" && can_cache(in.run.loss);
  // Scores of a second epoch are those of the first, and a cached reference needs no memory.
  const bool several_epochs = plan.timing.examples > unit_of(in.run.loss, in.lengths).in_epoch;
  if (open && (several_epochs || !plan.fits())) return assess_with(in, Reference::cached);
  return plan;
}

// Where the lengths are those of other data, an error that some data would not have is a warning.
void refuse_for_known_reasons_alone(Plan& plan, const Inputs& in) {
  for (const Lengths& lengths : extreme_lengths(in.run.max_length, in.run.batch_size)) {
    Inputs other = in;
    other.lengths = lengths;
    const Plan possible = assess_known(other);
    for (Finding& finding : plan.findings) {
      const Finding* there = possible.find(finding.id);
      if (finding.verdict != Verdict::error || (there && there->verdict == Verdict::error)) continue;
      finding.verdict = Verdict::warning;
      finding.message +=
          fmt::format("; that is by the statistics of {}, so the run is not refused for it", in.lengths.name);
    }
  }
}

bool is_for_this_machine(const Remedy& remedy) {
  return std::none_of(remedy.overrides.begin(), remedy.overrides.end(),
                      [](const std::string& word) { return word == "--gpus" || word == "--device"; });
}

}  // namespace

ExampleUnit unit_of(const config::LossConfig& loss, const Lengths& lengths) {
  if (!is_preference(loss)) return {"example", lengths.train_prompts, lengths.test_prompts, {1, 1}};
  if (loss.name != "plackett_luce") return {"pair", lengths.train_pairs, lengths.test_pairs, {2, 2}};
  const double mean =
      lengths.train_rankings == 0 ? 2 : to_double(lengths.train_ranked) / to_double(lengths.train_rankings);
  return {"ranking", lengths.train_rankings, lengths.test_rankings, {mean, lengths.longest_ranking}};
}

config::EvaluationSize evaluation_of(const Inputs& in) {
  const bool is_counted = in.lengths.known != Known::statistics;
  return config::evaluation_size(in.run, is_counted ? unit_of(in.run.loss, in.lengths).in_test : 0);
}

std::optional<config::MeshShape> find_mesh(const Inputs& in) {
  return config::find_mesh(in.run, ranks_of(machine_of_ranks(in.machine, in.run), in.run));
}

Case make_case(const Inputs& in, Reference reference_if_auto) {
  Case c{.in = in, .machine = machine_of_ranks(in.machine, in.run)};
  c.mesh = config::mesh_of(in.run, ranks_of(c.machine, in.run));
  c.spread = is_basic(in.run) ? c.machine.gpus * c.machine.nodes : 1;
  c.reference = reference_of(in.run, reference_if_auto);
  c.precision = precision_of(in.run, c.mesh.data_ranks());
  c.example = example_tokens(in.lengths, in.run.max_length, in.run.max_prompt_length,
                             unit_of(in.run.loss, in.lengths).responses);
  c.examples =
      to_double(in.run.batch_size) / to_double(in.run.gradient_accumulation_steps * c.mesh.data_ranks());
  c.tokens = c.example.mean * c.examples;
  c.peak_tokens = peak_of(c.example.mean, c.example.deviation, c.example.largest, c.examples);
  c.response_rows = c.example.response_mean * c.examples;
  c.peak_response_rows = std::min(c.peak_tokens, c.example.response_largest * std::max(1.0, c.examples));
  c.attended = c.example.attended * c.examples;
  return c;
}

bool Plan::has(Verdict verdict) const {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& f) { return f.verdict == verdict; });
}

const Finding* Plan::find(std::string_view id) const {
  const auto it =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.id == id; });
  return it == findings.end() ? nullptr : &*it;
}

Plan assess(const Inputs& in) {
  Plan plan = assess_known(in);
  if (!in.unmeasured.empty() && plan.has(Verdict::error)) refuse_for_known_reasons_alone(plan, in);
  return plan;
}

Plan make_plan(const Inputs& in) {
  Plan plan = assess(in);
  for (Finding& finding : plan.findings) {
    if (finding.verdict < Verdict::warning || !finding.remedies.empty()) continue;
    finding.remedies = remedies_for(finding, in);
    const bool here = std::any_of(finding.remedies.begin(), finding.remedies.end(), is_for_this_machine);
    if (finding.id == "memory" && !here) finding.message += "; " + least_memory_needed(in);
  }
  return plan;
}

}  // namespace dpo::plan
