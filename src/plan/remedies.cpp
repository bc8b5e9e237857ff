#include "plan/remedies.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/divisors.h"
#include "base/quantity.h"
#include "config/assets.h"
#include "plan/rules.h"
#include "plan/savings.h"

namespace dpo::plan {
namespace {

constexpr const char* kMixed = "model.fsdp_policy_mp=bfloat16";
constexpr const char* kCheckpointing = "activation_checkpointing=true";

// Collects the changes whose own plan holds: the finding is gone, and no error is there that was not before.
class Remedies {
 public:
  Remedies(const Inputs& in, std::string id) : in_(in), id_(std::move(id)), before_(assess(in)) {}

  bool would_hold(const Words& words) const {
    const Inputs after = changed(in_, words);
    return find_mesh(after) && holds(assess(after));
  }

  bool offer(const Words& words, const std::string& reason) {
    if (!would_hold(words)) return false;
    found_.push_back({words, reason});
    return true;
  }

  bool none() const { return found_.empty(); }
  std::vector<Remedy> take() { return std::move(found_); }

 private:
  bool holds(const Plan& plan) const {
    const Finding* left = plan.find(id_);
    if (!plan.fits() || (left && left->verdict >= Verdict::warning)) return false;
    for (const Finding& finding : plan.findings)
      if (finding.verdict == Verdict::error && !was_error(finding.id)) return false;
    return true;
  }

  bool was_error(const std::string& id) const {
    const Finding* finding = before_.find(id);
    return finding && finding->verdict == Verdict::error;
  }

  const Inputs& in_;
  std::string id_;
  Plan before_;
  std::vector<Remedy> found_;
};

std::int64_t data_ranks(const Inputs& in) {
  const std::optional<config::MeshShape> mesh = find_mesh(in);
  return mesh ? mesh->data_ranks() : 1;
}

Words basic_trainer(const Inputs& in) { return Words{"trainer=BasicTrainer"} + without_mesh(in); }

// The most accumulation steps, fewer than now, that leave two examples on each GPU.
std::optional<Words> fewer_steps(const Inputs& in) {
  std::optional<Words> most;
  for (const std::int64_t steps : divisors(in.run.batch_size)) {
    if (steps >= in.run.gradient_accumulation_steps) break;
    const std::int64_t unit = steps * data_ranks(in);
    if (in.run.batch_size % unit == 0 && in.run.batch_size / unit >= kExamplesPerGpu)
      most = Words{fmt::format("gradient_accumulation_steps={}", steps)};
  }
  return most;
}

Words larger_batch(const Inputs& in) {
  const std::int64_t size = kExamplesPerGpu * in.run.gradient_accumulation_steps * data_ranks(in);
  Words words = {fmt::format("batch_size={}", size)};
  // Intervals count examples: keep them multiples, or the remedy would bring a new warning.
  for (const auto& [key, every] :
       {std::pair("eval_every", in.run.eval_every), std::pair("save_every", in.run.save_every)})
    if (every && *every >= size && *every % size != 0)
      words.push_back(fmt::format("{}={}", key, *every / size * size));
  return words;
}

std::optional<Words> fewer_gpus(const Inputs& in) {
  if (in.machine.launched) return std::nullopt;
  for (std::int64_t gpus = in.machine.gpus - 1; gpus >= 1; --gpus) {
    Inputs fewer = in;
    fewer.machine.gpus = gpus;
    const std::int64_t unit = in.run.gradient_accumulation_steps * data_ranks(fewer);
    if (find_mesh(fewer) && in.run.batch_size % unit == 0 && in.run.batch_size / unit >= kExamplesPerGpu)
      return Words{"--gpus", fmt::format("{}", gpus)};
  }
  return std::nullopt;
}

// Mixed precision and checkpointing make room; the rule itself is met by the split that they allow.
std::vector<Remedy> for_batch_per_gpu(const Inputs& in) {
  Remedies remedies(in, "batch-per-gpu");
  const auto steps = fewer_steps(in);
  const Words batch = larger_batch(in);
  const auto with_room = [&](const char* room, const std::string& reason) {
    if (steps && remedies.offer(Words{room} + *steps, reason + ", room for fewer accumulation steps")) return;
    remedies.offer(Words{room} + batch, reason + ", room for a larger batch");
  };
  if (!in.run.model.fsdp_policy_mp && in.run.model.policy_dtype == "float32")
    with_room(kMixed, "mixed precision halves what is gathered and kept");
  if (!in.run.activation_checkpointing)
    with_room(kCheckpointing, "activation checkpointing keeps one activation a layer");
  if (steps) remedies.offer(*steps, "fewer accumulation steps: more examples in each");
  remedies.offer(batch, "a larger batch");
  if (const auto gpus = fewer_gpus(in)) remedies.offer(*gpus, "fewer GPUs: more examples on each");
  remedies.offer(basic_trainer(in), in.machine.gpus > 1
                                        ? "one process, layers spread over the GPUs, nothing to gather"
                                        : "one process, nothing to gather");
  return remedies.take();
}

// The words alone, or with as few more accumulation steps as they need.
std::optional<Words> with_split(const Remedies& remedies, const Inputs& in, const Words& words) {
  if (!words.empty() && remedies.would_hold(words)) return words;
  for (const std::int64_t steps : divisors(in.run.batch_size)) {
    if (steps <= in.run.gradient_accumulation_steps) continue;
    const Words split = words + Words{fmt::format("gradient_accumulation_steps={}", steps)};
    if (remedies.would_hold(split)) return split;
  }
  return std::nullopt;
}

// The first savings that are enough together, without those of them that are not needed.
bool offer_together(Remedies& remedies, const Inputs& in, const Words& first, const std::vector<Saving>& ways,
                    const std::string& first_reason) {
  std::vector<Saving> taken = {{first, first_reason}};
  std::optional<Words> words;
  for (auto way = ways.begin(); !words && way != ways.end(); ++way) {
    taken.push_back(*way);
    words = with_split(remedies, in, joined(taken).words);
  }
  if (!words) return false;
  for (std::size_t i = taken.size() - 1; i-- > 1;) {
    std::vector<Saving> fewer = taken;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (const auto enough = with_split(remedies, in, joined(fewer).words)) {
      taken = std::move(fewer);
      words = enough;
    }
  }
  if (first.empty()) taken.erase(taken.begin());
  const Saving all = joined(taken);
  return remedies.offer(*words, *words == all.words ? all.reason : all.reason + ", smaller microbatches");
}

// GPUs that are enough with these keys: more of this kind, or as many of a larger one.
void offer_other_gpus(Remedies& remedies, const Inputs& in, const Words& keys) {
  constexpr std::int64_t kMostGpus = 64;
  const bool is_away = in.run.mesh.replica.value_or(1) > 1;  // by one of them
  const Words shards = (in.run.trainer == "FSDPTrainer" ? Words{} : Words{"trainer=FSDPTrainer"}) +
                       (is_away ? Words{} : without_mesh(in));
  for (std::int64_t gpus = 2 * in.machine.gpus; gpus <= kMostGpus; gpus *= 2) {
    const std::int64_t batch = nearest_multiples(in.run.batch_size, gpus * in.machine.nodes).above;
    const Words larger = batch == in.run.batch_size ? Words{} : Words{fmt::format("batch_size={}", batch)};
    const Words more = keys + shards + larger + Words{"--gpus", std::to_string(gpus)};
    if (const auto words = with_split(remedies, in, more)) {
      remedies.offer(*words, "more GPUs to shard over");
      break;
    }
  }
  std::vector<Device> kinds;
  for (const std::string& name : config::assets_in("device"))
    if (const Device device = load_device(name); !device.is_cpu && device.memory > in.machine.device.memory)
      kinds.push_back(device);
  std::sort(kinds.begin(), kinds.end(), [](const Device& a, const Device& b) { return a.memory < b.memory; });
  for (const Device& kind : kinds)
    if (const auto words = with_split(remedies, in, keys + Words{"--device", kind.name})) {
      remedies.offer(*words, "the smallest kind of GPU that is enough");
      break;
    }
}

std::vector<Remedy> for_memory(const Inputs& in) {
  Remedies remedies(in, "memory");
  for (const Saving& way : harmless_savings(in)) remedies.offer(way.words, way.reason);
  const Words shards = {"trainer=FSDPTrainer"};
  const bool can_shard = in.run.trainer != "FSDPTrainer" && in.machine.ranks() > 1;
  constexpr const char* kSharded = "parameters, gradients and optimizer sharded over the GPUs";
  if (can_shard) remedies.offer(shards, kSharded);
  if (const auto words = with_split(remedies, in, {})) remedies.offer(*words, "smaller microbatches");
  if (!remedies.none()) return remedies.take();
  offer_together(remedies, in, {}, all_savings(in), "");
  if (can_shard && remedies.none())
    offer_together(remedies, in, shards, all_savings(changed(in, shards)), kSharded);
  const bool can_change = !in.machine.device.is_cpu && !in.machine.launched;
  for (const std::vector<Saving>& savings : {harmless_savings(in), all_savings(in)})
    if (can_change && remedies.none()) offer_other_gpus(remedies, in, joined(savings).words);
  return remedies.take();
}

// Fewer ranks for each layer, the rest for shards.
std::vector<Remedy> for_tensor_split(const Inputs& in) {
  Remedies remedies(in, "tensor-split");
  const config::MeshShape mesh = *find_mesh(in);
  const std::vector<std::int64_t> degrees = divisors(mesh.tensor);
  for (auto degree = degrees.rbegin(); degree != degrees.rend() && *degree > 1; ++degree) {
    if (!divides_layers(in.shape, *degree)) continue;
    const std::int64_t shards = mesh.shard * mesh.tensor / *degree;
    remedies.offer({fmt::format("mesh.shard={}", shards), fmt::format("mesh.tensor={}", *degree)},
                   "a degree that divides the layers, the other GPUs as shards");
    break;
  }
  remedies.offer(Words{"trainer=FSDPTrainer"} + without_mesh(in), "shards need not divide heads");
  return remedies.take();
}

std::vector<Remedy> for_optimizer_split(const Inputs& in) {
  Remedies remedies(in, "optimizer-split");
  remedies.offer({"optimizer=AdamW"}, "works on any part of a matrix");
  remedies.offer(basic_trainer(in), "one process, whole matrices");
  return remedies.take();
}

}  // namespace

std::string least_memory_needed(const Inputs& in) {
  const Words words = joined(all_savings(in)).words;
  double least = assess(in).memory.total();
  // Smaller microbatches need less, but sum gradients in float32.
  for (const std::int64_t steps : {in.run.gradient_accumulation_steps, in.run.batch_size}) {
    const Inputs saving = changed(in, words + Words{fmt::format("gradient_accumulation_steps={}", steps)});
    if (find_mesh(saving)) least = std::min(least, assess(saving).memory.total());
  }
  return fmt::format("no key makes it fit: with every one that saves memory ({}) it needs {}",
                     fmt::join(words, " "), memory_size(least));
}

std::vector<Remedy> remedies_for(const Finding& finding, const Inputs& in) {
  if (finding.id == "batch-per-gpu") return for_batch_per_gpu(in);
  if (finding.id == "memory") return for_memory(in);
  if (finding.id == "tensor-split") return for_tensor_split(in);
  if (finding.id == "optimizer-split") return for_optimizer_split(in);
  return {};
}

}  // namespace dpo::plan
