#include "plan/search.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/divisors.h"
#include "plan/rules.h"

namespace dpo::plan {
namespace {

// One point of the search: values of the keys that it may change.
struct Choice {
  config::Trainer trainer;
  config::MeshConfig mesh;
  std::optional<config::Dtype> mixed;
  config::ReferenceScoring reference;
  config::RecomputedLayers checkpointing;
  std::int64_t steps;
};

struct TrainerAndMesh {
  config::Trainer trainer;
  config::MeshConfig mesh;
};

// Returns a mesh key that is right for replicas alone: 1, if the run says so, or the default.
std::optional<std::int64_t> one_or_none(const std::optional<std::int64_t>& size) {
  return size == 1 ? size : std::nullopt;
}

// Returns the meshes worth trying: the run's own, one process, the trainer's own, shards (alone, with
// tensor-parallel groups within a machine, with a replica for each machine), and tensor parallelism alone.
std::vector<TrainerAndMesh> meshes_to_try(const Inputs& in) {
  std::vector<TrainerAndMesh> ways = {{in.run.trainer, in.run.mesh}};
  if (in.run.trainer != config::Trainer::Basic) ways.push_back({config::Trainer::Basic, {}});
  if (in.machine.ranks() == 1) {
    if (config::ranks_asked_for(in.run) > 1) ways.push_back({in.run.trainer, {}});
    return ways;
  }
  std::vector<std::optional<std::int64_t>> degrees = {std::nullopt}, replicas = {std::nullopt};
  for (const std::int64_t degree : divisors(in.machine.gpus))
    if (degree > 1 && divides_layers(in.shape, degree)) degrees.push_back(degree);
  if (in.machine.nodes > 1) replicas.push_back(in.machine.nodes);
  for (const auto& degree : degrees)
    for (const auto& replica : replicas)
      ways.push_back({config::Trainer::Fsdp, {.replica = replica, .shard = std::nullopt, .tensor = degree}});
  ways.push_back({config::Trainer::TensorParallel, {}});
  // A whole quantized model often fits and need not be gathered. Adafactor needs a whole model.
  if (in.run.adapter.base_dtype || in.run.optimizer == config::Optimizer::Adafactor)
    ways.push_back({config::Trainer::Fsdp,
                    {.replica = in.machine.ranks(),
                     .shard = one_or_none(in.run.mesh.shard),
                     .tensor = one_or_none(in.run.mesh.tensor)}});
  return ways;
}

std::vector<Choice> choices(const Inputs& in) {
  std::vector<std::optional<config::Dtype>> precisions = {in.run.model.fsdp_policy_mp};
  if (can_be_mixed(in.run) && may_change(in.run, {kMixed})) precisions.push_back(config::Dtype::bfloat16);
  std::vector<config::ReferenceScoring> references = {in.run.reference};
  if (can_be_cached(in.run)) references.push_back(config::ReferenceScoring::cached);
  std::vector<config::RecomputedLayers> checkpointings = {in.run.activation_checkpointing};
  for (const std::int64_t count : {std::int64_t{0}, config::RecomputedLayers::kAutomatic})
    if (count != in.run.activation_checkpointing.count) checkpointings.push_back({count});
  std::vector<Choice> all;
  for (const TrainerAndMesh& way : meshes_to_try(in))
    for (const auto& mixed : precisions)
      for (const config::ReferenceScoring reference : references)
        for (const config::RecomputedLayers checkpointing : checkpointings)
          for (const std::int64_t steps : divisors(in.run.batch_size))
            all.push_back({way.trainer, way.mesh, mixed, reference, checkpointing, steps});
  return all;
}

Inputs with(const Inputs& in, const Choice& choice) {
  Inputs result = in;
  result.run.trainer = choice.trainer;
  result.run.mesh = choice.mesh;
  result.run.model.fsdp_policy_mp = choice.mixed;
  result.run.reference = choice.reference;
  result.run.activation_checkpointing = choice.checkpointing;
  result.run.gradient_accumulation_steps = choice.steps;
  return result;
}

Overrides difference(const config::RunConfig& from, const Choice& to) {
  Overrides overrides = mesh_change(from, to.trainer, to.mesh);
  if (from.model.fsdp_policy_mp != to.mixed)
    overrides.push_back("model.fsdp_policy_mp=" + name_of(*to.mixed));
  if (from.reference != to.reference) overrides.push_back("reference=" + name_of(to.reference));
  if (from.activation_checkpointing != to.checkpointing)
    overrides.push_back(
        fmt::format("activation_checkpointing={}", to.checkpointing.is_automatic() ? "auto" : "false"));
  if (from.gradient_accumulation_steps != to.steps)
    overrides.push_back(fmt::format("gradient_accumulation_steps={}", to.steps));
  return overrides;
}

// True if the memory may be enough. Rules and time take longer to compute, so they are skipped otherwise.
bool may_fit(const Inputs& in) { return memory_per_gpu(make_workload(in, ReferenceMode::cached)).fits(); }

bool keeps_batch_rule(const Plan& plan) { return plan.find("batch-per-gpu")->verdict == Verdict::ok; }

bool contains(const RuleIds& ids, const std::string& id) { return std::ranges::find(ids, id) != ids.end(); }

// Returns the rules that a plan breaks.
RuleIds errors_of(const Plan& plan) {
  RuleIds ids;
  for (const Finding& finding : plan.findings)
    if (finding.verdict == Verdict::error) ids.push_back(finding.id);
  return ids;
}

bool is_accepted(const Plan& plan, const RuleIds& accepted) {
  return plan.fits() && keeps_batch_rule(plan) &&
         std::ranges::all_of(errors_of(plan), [&](const std::string& id) { return contains(accepted, id); });
}

// Finds the fastest of the choices that do not change the result of training.
std::optional<Fit> find_among_choices(const Inputs& in, const RuleIds& accepted) {
  std::optional<Fit> best;
  for (const Choice& choice : choices(in)) {
    const Inputs chosen = with(in, choice);
    if (!find_mesh(chosen) || !may_fit(chosen)) continue;
    Plan plan = assess(chosen);
    if (!is_accepted(plan, accepted)) continue;
    Overrides overrides = difference(in.run, choice);
    // Among equally fast choices, the one that changes least is taken.
    constexpr double kNoticeable = 0.999;
    const bool faster = !best || plan.timing.update < kNoticeable * best->plan.timing.update;
    const bool simpler = best && plan.timing.update * kNoticeable <= best->plan.timing.update &&
                         overrides.size() < best->overrides.size();
    if (faster || simpler) best = Fit{std::move(overrides), std::move(plan)};
  }
  return best;
}

}  // namespace

std::vector<std::string> Fit::errors() const { return errors_of(plan); }

RuleIds lasting_errors(const Inputs& in) {
  std::optional<RuleIds> lasting;
  for (const Choice& choice : choices(in)) {
    const Inputs chosen = with(in, choice);
    // Checkpointing changes memory only.
    if (choice.checkpointing != in.run.activation_checkpointing || !find_mesh(chosen)) continue;
    const RuleIds errors = errors_of(assess(chosen));
    if (!lasting) lasting = errors;
    std::erase_if(*lasting, [&](const std::string& id) {
      return id == "memory" || id == "host-memory" || !contains(errors, id);
    });
    if (lasting->empty()) break;
  }
  return lasting.value_or(RuleIds());
}

std::optional<Fit> find_fastest(const Inputs& in, const std::vector<Saving>& savings,
                                const RuleIds& accepted) {
  return with_fewest(savings, [&](const std::vector<Saving>& taken) {
    const Saving change = joined(taken);
    std::optional<Fit> fit = find_among_choices(changed(in, change.overrides), accepted);
    if (!fit) return fit;
    fit->overrides = change.overrides + fit->overrides;
    fit->costs = change.reason;
    return fit;
  });
}

std::optional<Fit> find_fastest(const Inputs& in) {
  return find_fastest(in, savings_of(in, Cost::bits), lasting_errors(in));
}

}  // namespace dpo::plan
