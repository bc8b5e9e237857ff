#include "plan/remedies.h"

#include <optional>

#include <fmt/format.h>

#include "base/divisors.h"
#include "config/compose.h"
#include "plan/rules.h"

namespace dpo::plan {
namespace {

constexpr const char* kMixed = "model.fsdp_policy_mp=bfloat16";
constexpr const char* kCheckpointing = "activation_checkpointing=true";

using Words = std::vector<std::string>;

// The same run with words added to its command: KEY=VALUE, or --gpus N.
Inputs changed(const Inputs& in, const Words& words) {
  Inputs result = in;
  Words overrides;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--gpus")
      result.machine.gpus = std::stoll(words[++i]);
    else
      overrides.push_back(words[i]);
  }
  result.run = config::with_overrides(in.run, overrides);
  return result;
}

// Collects the changes whose own plan holds: the finding is gone, and no error is there that was not before.
class Remedies {
 public:
  Remedies(const Inputs& in, std::string id) : in_(in), id_(std::move(id)), before_(assess(in)) {}

  bool offer(const Words& words, const std::string& reason) {
    const Inputs after = changed(in_, words);
    if (!find_mesh(after) || !holds(assess(after))) return false;
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

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::int64_t data_ranks(const Inputs& in) {
  const std::optional<config::MeshShape> mesh = find_mesh(in);
  return mesh ? mesh->data_ranks() : 1;
}

// Takes the keys of the mesh away that the run has set.
Words without_mesh(const Inputs& in) {
  Words words;
  if (in.run.mesh.replica) words.push_back("mesh.replica=null");
  if (in.run.mesh.shard) words.push_back("mesh.shard=null");
  if (in.run.mesh.tensor) words.push_back("mesh.tensor=null");
  return words;
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

struct Way {
  Words words;
  std::string reason;
};

// What makes room without touching the split of the batch, from the cheapest to the slowest.
std::vector<Way> ways_to_make_room(const Inputs& in) {
  std::vector<Way> ways;
  if (!in.run.model.fsdp_policy_mp && in.run.model.policy_dtype == "float32")
    ways.push_back({{kMixed}, "mixed precision"});
  if (needs_reference(in.run.loss) && in.run.reference == "live" && can_cache(in.run.loss))
    ways.push_back({{"reference=cached"}, "reference scores computed once, then the reference is freed"});
  if (in.run.fsdp_accumulate == "whole")
    ways.push_back({{"fsdp_accumulate=sharded"}, "gradients summed in shards"});
  if (in.run.mesh.replica.value_or(1) > 1)
    ways.push_back({without_mesh(in), "one group of shards instead of replicas"});
  if (!in.run.activation_checkpointing) ways.push_back({{kCheckpointing}, "activation checkpointing"});
  if (in.run.trainer != "FSDPTrainer" && in.machine.ranks() > 1)
    ways.push_back({{"trainer=FSDPTrainer"}, "parameters, gradients and optimizer sharded over the GPUs"});
  return ways;
}

// The words alone, or with as few more accumulation steps as they need.
bool offer_with_split(Remedies& remedies, const Inputs& in, const Words& words, const std::string& reason) {
  if (!words.empty() && remedies.offer(words, reason)) return true;
  for (const std::int64_t steps : divisors(in.run.batch_size)) {
    if (steps <= in.run.gradient_accumulation_steps) continue;
    const std::string smaller = words.empty() ? "smaller microbatches" : reason + ", smaller microbatches";
    if (remedies.offer(words + Words{fmt::format("gradient_accumulation_steps={}", steps)}, smaller))
      return true;
  }
  return false;
}

std::vector<Remedy> for_memory(const Inputs& in) {
  Remedies remedies(in, "memory");
  const std::vector<Way> ways = ways_to_make_room(in);
  for (const Way& way : ways) remedies.offer(way.words, way.reason);
  offer_with_split(remedies, in, {}, "");
  Words together;
  std::string reasons;
  for (const Way& way : ways) {
    if (!remedies.none()) break;
    together = together + way.words;
    reasons += (reasons.empty() ? "" : ", ") + way.reason;
    offer_with_split(remedies, in, together, reasons);
  }
  const bool is_away = in.run.mesh.replica.value_or(1) > 1;  // by one of the ways above
  const Words taken_away = is_away ? Words{} : without_mesh(in);
  constexpr std::int64_t kMostGpus = 64;
  if (in.run.trainer != "FSDPTrainer" && in.machine.ranks() == 1) together.push_back("trainer=FSDPTrainer");
  for (std::int64_t gpus = 2 * in.machine.gpus; remedies.none() && gpus <= kMostGpus; gpus *= 2) {
    if (in.machine.device.is_cpu || in.machine.launched) break;
    remedies.offer(together + taken_away + Words{"--gpus", fmt::format("{}", gpus)},
                   "more GPUs to shard over");
  }
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

std::vector<Remedy> remedies_for(const Finding& finding, const Inputs& in) {
  if (finding.id == "batch-per-gpu") return for_batch_per_gpu(in);
  if (finding.id == "memory") return for_memory(in);
  if (finding.id == "tensor-split") return for_tensor_split(in);
  if (finding.id == "optimizer-split") return for_optimizer_split(in);
  return {};
}

}  // namespace dpo::plan
