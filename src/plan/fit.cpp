#include <fmt/format.h>

#include "base/divisors.h"
#include "plan/plan.h"
#include "plan/rules.h"
#include "plan/savings.h"

namespace dpo::plan {
namespace {

// One point of the search: the keys that it may set, with their values.
struct Choice {
  std::string trainer;
  config::MeshConfig mesh;
  std::optional<std::string> mixed;
  std::string reference;
  bool checkpointing;
  std::int64_t steps;
};

struct Sharing {
  std::string trainer;
  config::MeshConfig mesh;
};

// The ways to share the work that are worth a look: the run's own, one process, shards (of the whole model,
// or in groups that split each layer within a machine, or in a replica for each machine), and splitting
// alone.
std::vector<Sharing> ways_to_share(const Inputs& in) {
  std::vector<Sharing> ways = {{in.run.trainer, in.run.mesh}, {"BasicTrainer", {}}};
  if (in.machine.ranks() == 1) return ways;
  std::vector<std::optional<std::int64_t>> degrees = {std::nullopt}, replicas = {std::nullopt};
  for (const std::int64_t degree : divisors(in.machine.gpus))
    if (degree > 1 && divides_layers(in.shape, degree)) degrees.push_back(degree);
  if (in.machine.nodes > 1) replicas.push_back(in.machine.nodes);
  for (const auto& degree : degrees)
    for (const auto& replica : replicas)
      ways.push_back({"FSDPTrainer", {.replica = replica, .shard = std::nullopt, .tensor = degree}});
  ways.push_back({"TensorParallelTrainer", {}});
  return ways;
}

std::vector<Choice> choices(const Inputs& in) {
  std::vector<std::optional<std::string>> precisions = {in.run.model.fsdp_policy_mp};
  if (!in.run.model.fsdp_policy_mp && in.run.model.policy_dtype == "float32")
    precisions.push_back("bfloat16");
  std::vector<std::string> references = {in.run.reference};
  if (in.run.reference == "live" && needs_reference(in.run.loss) && can_cache(in.run.loss))
    references.push_back("cached");
  std::vector<Choice> all;
  for (const Sharing& way : ways_to_share(in))
    for (const auto& mixed : precisions)
      for (const std::string& reference : references)
        for (const bool checkpointing : {false, true})
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

void add_difference(std::vector<std::string>& words, const char* key, const std::optional<std::int64_t>& from,
                    const std::optional<std::int64_t>& to) {
  if (from != to) words.push_back(fmt::format("{}={}", key, to ? std::to_string(*to) : "null"));
}

std::vector<std::string> difference(const config::RunConfig& from, const Choice& to) {
  std::vector<std::string> words;
  if (from.trainer != to.trainer) words.push_back("trainer=" + to.trainer);
  add_difference(words, "mesh.replica", from.mesh.replica, to.mesh.replica);
  add_difference(words, "mesh.shard", from.mesh.shard, to.mesh.shard);
  add_difference(words, "mesh.tensor", from.mesh.tensor, to.mesh.tensor);
  if (from.model.fsdp_policy_mp != to.mixed) words.push_back("model.fsdp_policy_mp=" + *to.mixed);
  if (from.reference != to.reference) words.push_back("reference=" + to.reference);
  if (from.activation_checkpointing != to.checkpointing)
    words.push_back(fmt::format("activation_checkpointing={}", to.checkpointing));
  if (from.gradient_accumulation_steps != to.steps)
    words.push_back(fmt::format("gradient_accumulation_steps={}", to.steps));
  return words;
}

bool keeps_the_rule(const Plan& plan) { return plan.find("batch-per-gpu")->verdict == Verdict::ok; }

// The fastest of the choices that keep what is learnt.
std::optional<Fit> find_among_choices(const Inputs& in) {
  std::optional<Fit> best;
  for (const Choice& choice : choices(in)) {
    const Inputs chosen = with(in, choice);
    if (!find_mesh(chosen)) continue;
    Plan plan = assess(chosen);
    if (!plan.good() || !plan.fits() || !keeps_the_rule(plan)) continue;
    std::vector<std::string> words = difference(in.run, choice);
    // Of equally fast ones, that which changes least.
    constexpr double kNoticeable = 0.999;
    const bool faster = !best || plan.timing.step < kNoticeable * best->plan.timing.step;
    const bool simpler = best && plan.timing.step * kNoticeable <= best->plan.timing.step &&
                         words.size() < best->overrides.size();
    if (faster || simpler) best = Fit{std::move(words), std::move(plan)};
  }
  return best;
}

}  // namespace

std::optional<Fit> find_fastest(const Inputs& in) {
  if (std::optional<Fit> fit = find_among_choices(in)) return fit;
  // Then those that change what is learnt, as few as are enough.
  std::vector<Saving> taken;
  for (const Saving& saving : costly_savings(in)) {
    taken.push_back(saving);
    for (const Words& words : {saving.words, joined(taken).words})
      if (std::optional<Fit> fit = find_among_choices(changed(in, words))) {
        fit->overrides = words + fit->overrides;
        return fit;
      }
  }
  return std::nullopt;
}

}  // namespace dpo::plan
