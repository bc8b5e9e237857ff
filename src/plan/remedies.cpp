#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/divisors.h"
#include "base/quantity.h"
#include "config/assets.h"
#include "plan/rules.h"
#include "plan/search.h"

namespace dpo::plan {
namespace {

constexpr const char* kCheckpointing = "activation_checkpointing=auto";

// Collects the changes that work: in the plan with the change, the finding is gone or an error is only a
// warning. There must be no new error, and for a mere hint no new warning.
class Remedies {
 public:
  Remedies(const Finding& finding, const Plan& before, const Inputs& in)
      : finding_(finding), before_(before), in_(in) {}

  bool works(const Overrides& overrides) const {
    if (!may_change(in_.run, overrides)) return false;
    const Inputs after = changed(in_, overrides);
    return find_mesh(after) && is_better(assess(after));
  }

  bool offer(const Overrides& overrides, const std::string& reason) {
    if (!works(overrides)) return false;
    found_.push_back({overrides, reason});
    return true;
  }

  bool none() const { return found_.empty(); }
  // True if a remedy was found that trains the same weights, unlike LoRA instead of full training.
  bool keeps_training() const { return std::ranges::any_of(found_, keeps_weights); }
  // Returns the remedies. LoRA comes after those that train the same weights on the same machine.
  std::vector<Remedy> take() {
    const auto is_here = [](const Remedy& remedy) {
      return std::ranges::none_of(remedy.overrides,
                                  [](const std::string& word) { return word.starts_with("--"); });
    };
    if (!std::ranges::all_of(found_, keeps_weights))
      std::ranges::stable_partition(
          found_, [&](const Remedy& remedy) { return keeps_weights(remedy) && is_here(remedy); });
    return std::move(found_);
  }

 private:
  static bool keeps_weights(const Remedy& remedy) {
    return std::ranges::find(remedy.overrides, kLora) == remedy.overrides.end();
  }

  bool is_better(const Plan& plan) const {
    const Finding* left = plan.find(finding_.id);
    if (left && left->verdict >= finding_.verdict) return false;
    // Another split of the batch does not help a run that does not fit; other errors are fixed one by one.
    const bool must_fit = before_.fits() || finding_.id == "memory" || finding_.id == "batch-per-gpu";
    if (must_fit && !plan.fits()) return false;
    const Verdict bad = finding_.verdict == Verdict::hint ? Verdict::warning : Verdict::error;
    return std::ranges::none_of(plan.findings, [&](const Finding& finding) {
      return finding.verdict >= bad && verdict_before(finding.id) < bad;
    });
  }

  Verdict verdict_before(const std::string& id) const {
    const Finding* finding = before_.find(id);
    return finding ? finding->verdict : Verdict::ok;
  }

  const Finding& finding_;
  const Plan& before_;
  const Inputs& in_;
  std::vector<Remedy> found_;
};

std::int64_t data_ranks(const Inputs& in) {
  const std::optional<config::MeshShape> mesh = find_mesh(in);
  return mesh ? mesh->data_ranks() : 1;
}

Overrides basic_trainer(const Inputs& in) { return mesh_change(in.run, config::Trainer::Basic, {}); }

// Returns the most accumulation steps, fewer than now, that keep the minimum of examples on each GPU.
std::optional<Overrides> fewer_steps(const Inputs& in) {
  std::optional<Overrides> most;
  for (const std::int64_t steps : divisors(in.run.batch_size)) {
    if (steps >= in.run.gradient_accumulation_steps) break;
    const std::int64_t unit = steps * data_ranks(in);
    if (in.run.batch_size % unit == 0 && in.run.batch_size / unit >= kMinExamplesPerGpu)
      most = Overrides{fmt::format("gradient_accumulation_steps={}", steps)};
  }
  return most;
}

// Returns overrides for another batch size. Intervals count examples and stay multiples of the batch, or
// there would be a new warning or error.
Overrides batch_of(const Inputs& in, std::int64_t size) {
  Overrides overrides = {fmt::format("batch_size={}", size)};
  for (const auto& [key, every] :
       {std::pair("eval_every", in.run.eval_every), std::pair("save_every", in.run.save_every)})
    if (every && *every % size != 0)
      overrides.push_back(fmt::format("{}={}", key, std::max(size, *every / size * size)));
  return overrides;
}

Overrides larger_batch(const Inputs& in) {
  return batch_of(in, kMinExamplesPerGpu * in.run.gradient_accumulation_steps * data_ranks(in));
}

std::optional<Overrides> fewer_gpus(const Inputs& in) {
  if (in.machine.launched) return std::nullopt;
  for (std::int64_t gpus = in.machine.gpus - 1; gpus >= 1; --gpus) {
    Inputs fewer = in;
    fewer.machine.gpus = gpus;
    const std::int64_t unit = in.run.gradient_accumulation_steps * data_ranks(fewer);
    if (find_mesh(fewer) && in.run.batch_size % unit == 0 && in.run.batch_size / unit >= kMinExamplesPerGpu)
      return Overrides{"--gpus", fmt::format("{}", gpus)};
  }
  return std::nullopt;
}

// Offers splits of the batch that keep the rule. Mixed precision, which also halves what is gathered, makes
// room for them, as does checkpointing if there is not enough memory without it.
void fix_batch_per_gpu(Remedies& remedies, const Inputs& in) {
  const auto steps = fewer_steps(in);
  const Overrides batch = larger_batch(in);
  const bool has_room = remedies.works(steps ? *steps : batch);
  const auto with_room = [&](const char* room, const std::string& reason) {
    const std::string why = reason + (has_room ? ", and " : " makes room for ");
    if (steps && remedies.offer(Overrides{room} + *steps, why + "fewer accumulation steps")) return;
    remedies.offer(Overrides{room} + batch, why + "a larger batch");
  };
  if (can_be_mixed(in.run)) with_room(kMixed, "mixed precision (half the bytes to gather and save)");
  if (!has_room && in.run.activation_checkpointing.count == 0)
    with_room(kCheckpointing, "activation checkpointing (of as few layers as necessary)");
  if (steps) remedies.offer(*steps, "fewer accumulation steps: more examples in each");
  remedies.offer(batch, "a larger batch");
  if (const auto gpus = fewer_gpus(in)) remedies.offer(*gpus, "fewer GPUs: more examples on each");
  remedies.offer(basic_trainer(in), in.machine.gpus > 1
                                        ? "one process, layers spread over the GPUs, nothing to gather"
                                        : "one process, nothing to gather");
}

void fix_batch_divides(Remedies& remedies, const Inputs& in) {
  const std::int64_t unit = in.run.gradient_accumulation_steps * data_ranks(in);
  const Multiples near = nearest_multiples(in.run.batch_size, unit);
  for (const std::int64_t size : {near.below, near.above})
    if (size > 0) remedies.offer(batch_of(in, size), "a batch that divides evenly");
}

bool offer_alone(Remedies& remedies, const Inputs&, const Overrides& overrides, const std::string& reason) {
  return remedies.offer(overrides, reason);
}

// Offers the overrides alone, or with the nearest batches that then divide evenly.
bool offer_evenly(Remedies& remedies, const Inputs& in, const Overrides& overrides,
                  const std::string& reason) {
  if (remedies.offer(overrides, reason)) return true;
  const Inputs after = changed(in, overrides);
  const Multiples near =
      nearest_multiples(in.run.batch_size, after.run.gradient_accumulation_steps * data_ranks(after));
  bool found = false;
  for (const std::int64_t size : {near.below, near.above})
    if (size > 0 && size != in.run.batch_size)
      found |= remedies.offer(overrides + batch_of(in, size), reason + ", and a batch that divides evenly");
  return found;
}

// Offers the fewest steps that are enough, for this batch or else for another.
void fix_accumulation(Remedies& remedies, const Inputs& in) {
  for (const auto offer : {offer_alone, offer_evenly})
    for (const std::int64_t steps : divisors(in.run.batch_size))
      if (offer(remedies, in, {fmt::format("gradient_accumulation_steps={}", steps)},
                steps == 1 ? "the whole batch at once" : "the largest microbatches that fit"))
        return;
}

// Returns the change alone, or with as few more accumulation steps as it needs.
std::optional<Saving> with_split(const Remedies& remedies, const Inputs& in, const Saving& change) {
  if (!change.overrides.empty() && remedies.works(change.overrides)) return change;
  for (const std::int64_t steps : divisors(in.run.batch_size)) {
    if (steps <= in.run.gradient_accumulation_steps) continue;
    const Overrides split =
        change.overrides + Overrides{fmt::format("gradient_accumulation_steps={}", steps)};
    if (remedies.works(split))
      return Saving{split, change.reason + (change.reason.empty() ? "" : ", ") + "smaller microbatches"};
  }
  return std::nullopt;
}

// Offers a change together with as few of the savings as it needs.
bool offer_together(Remedies& remedies, const Inputs& in, const Saving& change,
                    const std::vector<Saving>& savings) {
  const std::optional<Saving> enough = with_fewest(savings, [&](std::vector<Saving> taken) {
    if (!change.overrides.empty()) taken.insert(taken.begin(), change);
    return with_split(remedies, in, joined(taken));
  });
  return enough && remedies.offer(enough->overrides, enough->reason);
}

// Offers GPUs that are enough with these savings: more of the same kind, or the same number of a larger one.
void offer_other_gpus(Remedies& remedies, const Inputs& in, const std::vector<Saving>& savings) {
  constexpr std::int64_t kMostGpus = 64;
  const bool resets_mesh = in.run.mesh.replica.value_or(1) > 1;  // one of the savings resets it
  const Overrides shards =
      mesh_change(in.run, config::Trainer::Fsdp, resets_mesh ? in.run.mesh : config::MeshConfig());
  for (std::int64_t gpus = 2 * in.machine.gpus; gpus <= kMostGpus; gpus *= 2) {
    const std::int64_t batch = nearest_multiples(in.run.batch_size, gpus * in.machine.nodes).above;
    const Overrides larger = batch == in.run.batch_size ? Overrides{} : batch_of(in, batch);
    const Overrides more = shards + larger + Overrides{"--gpus", std::to_string(gpus)};
    if (offer_together(remedies, in, {more, "more GPUs to shard over"}, savings)) break;
  }
  std::vector<Device> kinds;
  for (const std::string& name : config::assets_in("device"))
    if (const Device device = load_device(name); !device.is_cpu && device.memory > in.machine.device.memory)
      kinds.push_back(device);
  std::sort(kinds.begin(), kinds.end(), [](const Device& a, const Device& b) { return a.memory < b.memory; });
  for (const Device& kind : kinds)
    if (offer_together(remedies, in, {{"--device", kind.name}, "the smallest GPU that is enough"}, savings))
      break;
}

bool trains_lora(const Fit& fit) { return fit.plan.resolved.adapter.name != config::Adapter::none; }

void fix_memory(Remedies& remedies, const Inputs& in) {
  const std::vector<Saving> little = savings_of(in, Cost::little, Cost::little), all = savings_of(in);
  for (const Saving& way : little) remedies.offer(way.overrides, way.reason);
  const Saving shards = {{"trainer=FSDPTrainer"},
                         "parameters, gradients and optimizer state sharded over the GPUs"};
  const bool can_shard = in.run.trainer != config::Trainer::Fsdp && in.machine.ranks() > 1;
  if (can_shard) remedies.offer(shards.overrides, shards.reason);
  if (const auto split = with_split(remedies, in, {})) remedies.offer(split->overrides, split->reason);
  if (!remedies.none()) return;
  offer_together(remedies, in, {}, all);
  if (can_shard && remedies.none())
    offer_together(remedies, in, shards, savings_of(changed(in, shards.overrides)));
  // The search of --fit tries other meshes, and decides whether anything fits.
  if (!remedies.keeps_training())
    if (const std::optional<Fit> fit = find_fastest(in); fit && (remedies.none() || !trains_lora(*fit)))
      remedies.offer(fit->overrides, fit->costs.empty() ? "the fastest that fits" : fit->costs);
  const bool can_change = !in.machine.device.is_cpu && !in.machine.launched;
  for (const std::vector<Saving>& savings : {little, all})
    if (can_change && !remedies.keeps_training()) offer_other_gpus(remedies, in, savings);
}

// Offers a smaller tensor-parallel degree, and more shards.
void fix_tensor_split(Remedies& remedies, const Inputs& in) {
  const config::MeshShape mesh = *find_mesh(in);
  const std::vector<std::int64_t> degrees = divisors(mesh.tensor);
  for (auto degree = degrees.rbegin(); degree != degrees.rend() && *degree > 1; ++degree) {
    if (!divides_layers(in.shape, *degree)) continue;
    config::MeshConfig other = in.run.mesh;
    other.tensor = *degree;
    const bool takes_rest = in.run.trainer == config::Trainer::Fsdp && !other.shard;
    if (!takes_rest) other.shard = mesh.shard * mesh.tensor / *degree;
    offer_evenly(remedies, in, mesh_change(in.run, in.run.trainer, other),
                 "a tensor-parallel degree that divides the layers, and more shards");
    break;
  }
  offer_evenly(remedies, in, mesh_change(in.run, config::Trainer::Fsdp, {}), "sharding does not split heads");
}

void fix_spread(Remedies& remedies, const Inputs& in) {
  if (in.machine.nodes > 1)
    offer_evenly(remedies, in, mesh_change(in.run, config::Trainer::Fsdp, {}), "a process for every GPU");
}

void fix_optimizer_split(Remedies& remedies, const Inputs& in) {
  remedies.offer({"optimizer=AdamW"}, "works on split matrices");
  remedies.offer(basic_trainer(in), "one process, whole matrices");
}

// Offers the mesh on all GPUs: its open key, or all keys, as the trainer sets them.
void fix_idle_gpus(Remedies& remedies, const Inputs& in) {
  if (in.machine.launched) return;
  config::MeshConfig mesh = in.run.mesh;
  (in.run.trainer == config::Trainer::Fsdp ? mesh.shard : mesh.tensor).reset();
  for (const config::MeshConfig& wider : {mesh, config::MeshConfig()})
    if (remedies.offer(mesh_change(in.run, in.run.trainer, wider), "uses all GPUs")) return;
}

}  // namespace

std::string least_memory_needed(const Inputs& in) {
  const Overrides savings = joined(savings_of(in)).overrides;
  const Memory now = assess(in).memory;
  double least = now.total();
  // Smaller microbatches need less memory, except that gradients are then summed in float32, and kept.
  for (const std::int64_t steps : {std::int64_t{1}, in.run.gradient_accumulation_steps, in.run.batch_size}) {
    const Inputs saving =
        changed(in, savings + Overrides{fmt::format("gradient_accumulation_steps={}", steps)});
    if (find_mesh(saving)) least = std::min(least, assess(saving).memory.total());
  }
  if (least <= now.available) return "no combination of settings fits and keeps the other rules";
  return fmt::format("no combination of settings fits: with every memory-saving one ({}) it still needs {}",
                     fmt::join(savings, " "), memory_size(least));
}

std::vector<Remedy> remedies_for(const Finding& finding, const Plan& plan, const Inputs& in) {
  using Fix = void(Remedies&, const Inputs&);
  static const std::map<std::string_view, Fix*> kFixes = {{"batch-per-gpu", fix_batch_per_gpu},
                                                          {"batch-divides", fix_batch_divides},
                                                          {"accumulation", fix_accumulation},
                                                          {"idle-gpus", fix_idle_gpus},
                                                          {"memory", fix_memory},
                                                          {"spread", fix_spread},
                                                          {"tensor-split", fix_tensor_split},
                                                          {"optimizer-split", fix_optimizer_split}};
  Remedies remedies(finding, plan, in);
  if (const auto fix = kFixes.find(finding.id); fix != kFixes.end()) fix->second(remedies, in);
  for (const Remedy& proposed : finding.remedies) remedies.offer(proposed.overrides, proposed.reason);
  return remedies.take();
}

}  // namespace dpo::plan
