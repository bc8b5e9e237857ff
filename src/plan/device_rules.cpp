#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantity.h"
#include "config/losses.h"
#include "plan/rules.h"

namespace dpo::plan {
namespace {

Finding sharded_reference(const Facts& f, const std::string& key) {
  Finding finding = error("offload", key + ": a sharded reference cannot be offloaded");
  if (can_cache(f.run.loss))
    finding.remedies.push_back({{"reference=cached"}, "scores computed once, then the reference is freed"});
  finding.remedies.push_back({{f.run.offload == config::Offload::both ? "offload=optimizer" : "offload=none"},
                              "the reference's shards stay on the GPUs"});
  return finding;
}

}  // namespace

std::optional<Finding> unused_gpus(const Facts& f) {
  if (f.machine.unused_gpus.empty()) return std::nullopt;
  return warning("gpus", f.machine.unused_gpus);
}

std::optional<Finding> precision(const Facts& f) {
  const ElementBytes& p = f.w.bytes;
  const bool reference = f.plan.reference != ReferenceMode::none && p.reference == 2;
  const bool stored = f.run.model.policy_dtype != config::Dtype::float32 ||
                      f.run.optimizer_state == config::OptimizerState::bfloat16;
  if (f.machine.device.supports_bf16 || !(p.in_16_bits() || stored || reference)) return std::nullopt;
  Finding finding = error("precision", fmt::format("{} cannot train in 16 bits, which needs compute "
                                                   "capability 8.0 (Ampere) or newer",
                                                   f.machine.device.name));
  std::vector<std::string> overrides;
  if (f.run.model.policy_dtype != config::Dtype::float32) overrides.push_back("model.policy_dtype=float32");
  if (f.run.model.fsdp_policy_mp) overrides.push_back("model.fsdp_policy_mp=null");
  if (f.run.model.reference_dtype) overrides.push_back("model.reference_dtype=null");
  if (f.run.optimizer_state == config::OptimizerState::bfloat16) overrides.push_back("optimizer_state=null");
  finding.remedies.push_back({std::move(overrides), "everything in float32"});
  return finding;
}

std::optional<Finding> spread(const Facts& f) {
  constexpr const char* id = "spread";
  if (f.run.trainer == config::Trainer::Basic && f.machine.nodes > 1)
    return error(id, fmt::format("BasicTrainer is one process: it cannot use {} machines", f.machine.nodes));
  if (f.w.spread == 1) return std::nullopt;
  return hint(
      id,
      fmt::format("BasicTrainer spreads the layers over {} GPUs for their memory; the GPUs take turns, so "
                  "the run is as fast as on one (FSDPTrainer uses all at once)",
                  f.w.spread));
}

std::optional<Finding> idle_gpus(const Facts& f) {
  constexpr const char* id = "idle-gpus";
  const std::int64_t ranks = f.machine.gpus, gpus = f.w.in.machine.gpus;  // of one machine
  if (f.run.trainer == config::Trainer::Basic || f.machine.device.is_cpu || ranks >= gpus)
    return std::nullopt;
  std::string message = fmt::format("{} on {} of {} GPUs{}: the others stay idle", plural(ranks, "rank"),
                                    ranks, gpus, f.machine.nodes > 1 ? " of each machine" : "");
  if (f.machine.launched)
    message += fmt::format(
        "; mpirun -n {}, srun --ntasks-per-node={} and torchrun --nproc-per-node={} start a rank for each",
        gpus * f.machine.nodes, gpus, gpus);
  return hint(id, std::move(message));
}

std::optional<Finding> memory(const Facts& f) {
  constexpr const char* id = "memory";
  const std::string total = memory_size(f.plan.memory.total());
  const std::string available = memory_size(f.plan.memory.available);
  if (f.plan.memory.fits()) return ok(id, fmt::format("{} of {}", total, available));
  const std::int64_t sharing = f.w.ranks_per_device();
  const bool on_cpu = f.machine.device.is_cpu;
  const std::string place = !on_cpu && sharing == 1 ? "on each " + f.machine.device.name
                            : f.w.mesh.ranks() > 1  ? "per process"
                                                    : "on this machine";
  const std::string shared =
      !on_cpu && sharing > 1 ? fmt::format(" ({} share each {})", sharing, f.machine.device.name) : "";
  return error(id, fmt::format("needs {} {}, {} available{}", total, place, available, shared));
}

std::optional<Finding> disk(const Facts& f) {
  constexpr const char* id = "disk";
  const Disk& d = f.plan.disk;
  if (!f.w.in.host.obstacle.empty())
    return error(id,
                 fmt::format("cannot create the run folder {}: {}; choose another with local_run_dir=DIR or "
                             "local_dirs=[DIR]",
                             f.w.in.host.run_folder, f.w.in.host.obstacle));
  const std::string merged = d.merged > 0 ? fmt::format(", a merged model of {}", memory_size(d.merged)) : "";
  const std::string need = fmt::format("{} of {}{}, {} in all", plural(d.checkpoints, "checkpoint"),
                                       memory_size(d.checkpoint), merged, memory_size(d.total()));
  if (d.checkpoints == 0) return ok(id, "debug: no checkpoints");
  const auto& free = f.w.in.host.free_disk;
  if (!free) return ok(id, need + " (remote disk not checked)");
  const std::string where = fmt::format("; {} free in {}", memory_size(*free), f.w.in.host.run_folder);
  if (*free >= d.total()) return ok(id, need + where);
  Finding finding = error(id, need + where);
  const auto room = static_cast<std::int64_t>((*free - d.merged) / d.checkpoint);
  if (room >= 1) {
    // save_every must be a multiple of eval_every, since best_metric needs an evaluation of each checkpoint.
    const std::int64_t unit = f.plan.resolved.eval_every.value_or(f.run.batch_size);
    const Multiples every = nearest_multiples(f.plan.timing.examples / room + 1, unit);
    finding.remedies.push_back({{fmt::format("save_every={}", every.above)}, "fewer checkpoints"});
  }
  const std::int64_t kept = room - 1 - (f.run.best_metric ? 1 : 0);  // in addition to the best and a new one
  if (kept >= 1) finding.remedies.push_back({{fmt::format("keep_last={}", kept)}, "keeps only the newest"});
  if (d.merged > 0 && *free >= d.total() - d.merged)
    finding.remedies.push_back({{"adapter.merge_on_save=false"}, "dpo merge can write it to another disk"});
  return finding;
}

// Reports that gradients are freed early without clipping, or why they are not.
std::optional<Finding> gradients(const Facts& f) {
  constexpr const char* id = "gradients";
  if (f.run.max_grad_norm || f.w.in.adapter) return std::nullopt;
  if (f.w.storage.optimizer_in_backward)
    return ok(id,
              "max_grad_norm=null: each block is updated, and its gradients freed, during the backward pass");
  const std::string why = f.w.mesh.ranks() > 1 ? fmt::format("all {} ranks add to them", f.w.mesh.ranks())
                                               : fmt::format("all {} microbatches of an update add to them",
                                                             f.run.gradient_accumulation_steps);
  return hint(id, "max_grad_norm=null: gradients are kept until the update, since " + why);
}

// Reports what offload does, or why it does nothing.
std::optional<Finding> offload(const Facts& f) {
  constexpr const char* id = "offload";
  if (f.run.offload == config::Offload::none) return std::nullopt;
  const std::string key = "offload=" + name_of(f.run.offload);
  if (f.machine.device.is_cpu)
    return hint(id, key + " changes nothing on a CPU: all is in host memory anyway");
  if (f.w.storage.reference_on_host && reference_bytes(f.w) > 0 && f.w.mesh.shard > 1)
    return sharded_reference(f, key);
  std::vector<std::string> texts, unused;
  if (f.w.storage.optimizer_on_host)
    texts.push_back(fmt::format("{} of optimizer state", memory_size(optimizer_bytes(f.w))));
  else if (config::offloads_optimizer(f.run.offload))
    unused.push_back(name_of(f.run.optimizer) + " has too little state to offload");
  if (offloads_reference(f.w))
    texts.push_back(fmt::format("{} of the reference's weights", memory_size(reference_bytes(f.w))));
  else if (config::offloads_reference(f.run.offload))
    unused.push_back("this run keeps no weights of a reference on the GPU");
  if (texts.empty()) return hint(id, fmt::format("{}: {}", key, fmt::join(unused, "; ")));
  const double passes =
      to_double(f.run.gradient_accumulation_steps) * (1 + facts_of(f.run.loss.name).scoring_passes());
  const double bytes = (f.w.storage.optimizer_on_host ? optimizer_bytes(f.w) : 0) +
                       (offloads_reference(f.w) ? passes * reference_bytes(f.w) : 0);
  const double seconds = bytes / f.machine.device.host_link;
  return ok(id,
            fmt::format("{} in host memory per {}; copying takes {:.2g} s of an update at {:.3g} GB/s{}{}",
                        fmt::join(texts, " and "), device_word(f), seconds, f.machine.device.host_link / 1e9,
                        unused.empty() ? "" : "; ", fmt::join(unused, "; ")));
}

// Checks that host memory holds offloaded state, and the copy of a checkpoint from which it is written. The
// machines of one replica share the copy.
std::optional<Finding> host_memory(const Facts& f) {
  constexpr const char* id = "host-memory";
  const auto& memory = f.w.in.host.memory;
  const double waits = (f.w.storage.optimizer_on_host ? optimizer_bytes(f.w) : 0) +
                       (offloads_reference(f.w) ? reference_bytes(f.w) : 0);
  const bool offloads = waits > 0;
  if (!memory || f.machine.device.is_cpu || (f.plan.disk.checkpoints == 0 && !offloads)) return std::nullopt;
  const double copy =
      f.plan.disk.checkpoint / to_double(std::max<std::int64_t>(1, f.machine.nodes / f.w.mesh.replica));
  const double state = waits * to_double(f.machine.gpus);
  const double both = copy + state;
  std::vector<std::string> parts;
  if (offloads) parts.push_back(memory_size(state) + " are offloaded");
  if (copy > 0) parts.push_back("a checkpoint is copied");
  const std::string text = fmt::format("{} to host memory: {} of {}", fmt::join(parts, ", and "),
                                       memory_size(both), memory_size(*memory));
  constexpr double kTooMuch = 0.9, kMuch = 0.7;
  if (both > kTooMuch * *memory) return error(id, text + ", where it does not fit");
  return both > kMuch * *memory ? warning(id, text) : ok(id, text);
}

}  // namespace dpo::plan
