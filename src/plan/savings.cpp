#include "plan/savings.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "config/compose.h"
#include "config/schema.h"

namespace dpo::plan {
namespace {

constexpr std::int64_t kShortest = 128;  // max_length is not reduced below this

void append(std::vector<Saving>& savings, const std::vector<Saving>& more) {
  savings.insert(savings.end(), more.begin(), more.end());
}

// Returns the overrides for another optimizer. Settings that it does not have are reset, since they would be
// errors.
Overrides switch_optimizer(const config::RunConfig& run, config::Optimizer optimizer) {
  Overrides overrides = {"optimizer=" + name_of(optimizer)};
  if (run.optimizer_betas) overrides.push_back("optimizer_betas=null");
  if (optimizer != config::Optimizer::SGD) return overrides;
  if (run.optimizer_eps) overrides.push_back("optimizer_eps=null");
  if (run.optimizer_state) overrides.push_back("optimizer_state=null");
  return overrides;
}

// Returns savings of the optimizer state: coarser rounding, then slower updates.
std::vector<Saving> state_savings(const Inputs& in) {
  using State = config::OptimizerState;
  const config::RunConfig& run = in.run;
  std::vector<Saving> ways;
  if (run.optimizer == config::Optimizer::SGD || run.optimizer == config::Optimizer::Adafactor) return ways;
  const bool is_exact = run.optimizer_state ? run.optimizer_state == State::float32
                                            : run.model.policy_dtype == config::Dtype::float32;
  if (is_exact)
    ways.push_back({{"optimizer_state=bfloat16"}, "optimizer state in 16 bits, rounded stochastically"});
  if (run.optimizer_state != State::eight_bit)
    ways.push_back({{"optimizer_state=8bit"}, "optimizer state in 8 bits"});
  if (!in.machine.device.is_cpu && !config::offloads_optimizer(run.offload))
    ways.push_back({{run.offload == config::Offload::reference ? "offload=both" : "offload=optimizer"},
                    "optimizer state in host memory (the same numbers, slower updates)"});
  return ways;
}

// Removes overrides that a later choice makes useless: SGD has no state.
void drop_unused(Overrides& overrides) {
  if (std::ranges::find(overrides, "optimizer=SGD") == overrides.end()) return;
  std::erase_if(overrides, [](const std::string& other) {
    return other == "optimizer_state=bfloat16" || other == "optimizer_state=8bit" ||
           other == "offload=optimizer";
  });
}

std::string_view key_of(std::string_view override_text) {
  return override_text.substr(0, override_text.find('='));
}

bool is_used(const Saving& saving, const Overrides& overrides) {
  return std::ranges::any_of(saving.overrides, [&](const std::string& own) {
    return std::ranges::find(overrides, own) != overrides.end();
  });
}

// True if one of the later savings sets all of this saving's keys again.
bool is_replaced(const Saving& saving, std::span<const Saving> later) {
  const auto sets = [](const Saving& other, const std::string& own) {
    return std::ranges::any_of(other.overrides, [&](const std::string& override_text) {
      return key_of(override_text) == key_of(own);
    });
  };
  return std::ranges::any_of(later, [&](const Saving& other) {
    return std::ranges::all_of(saving.overrides, [&](const std::string& own) { return sets(other, own); });
  });
}

Overrides without_replicas(const config::RunConfig& run) {
  config::MeshConfig mesh = run.mesh;
  mesh.replica.reset();
  (run.trainer == config::Trainer::Fsdp ? mesh.shard : mesh.tensor).reset();
  return mesh_change(run, run.trainer, mesh);
}

// Turns off FP8 for a saving with quantized frozen matrices, since FP8 matmuls need them in 16 bits.
Saving without_fp8(const config::RunConfig& run, Saving saving) {
  if (!run.fp8) return saving;
  saving.overrides.push_back("fp8=false");
  saving.reason += ", no matmuls in 8 bits";
  return saving;
}

// Returns savings that keep the frozen matrices under an adapter in fewer bits than now.
std::vector<Saving> quantized_base(const Inputs& in) {
  const auto now = in.run.adapter.base_dtype;
  if (!in.adapter || in.quantization || now == config::BaseDtype::nf4) return {};
  std::vector<Saving> ways;
  if (!now)
    ways.push_back({{"adapter.base_dtype=int8"}, "frozen matrices rounded to 8 bits (about 1 % off)"});
  ways.push_back({{"adapter.base_dtype=nf4"}, "frozen matrices rounded to 4 bits (QLoRA; about 9 % off)"});
  for (Saving& way : ways) way = without_fp8(in.run, std::move(way));
  return ways;
}

// Returns LoRA in place of training all weights, then LoRA over quantized frozen matrices.
std::vector<Saving> lora(const Inputs& in) {
  const auto& archive = in.run.model.archive;
  std::error_code none;
  // An adapter needs the folder of its model.
  if (in.adapter || (archive && std::filesystem::is_regular_file(*archive, none))) return {};
  const Saving adapter = in.quantization ? without_fp8(in.run, lora_of(in.run)) : lora_of(in.run);
  std::vector<Saving> ways = {adapter};
  for (const Saving& base : quantized_base(changed(in, adapter.overrides)))
    ways.push_back({adapter.overrides + base.overrides, adapter.reason + ", " + base.reason});
  return ways;
}

std::vector<Saving> little_savings(const Inputs& in) {
  const config::RunConfig& run = in.run;
  std::vector<Saving> ways;
  if (can_be_mixed(run)) ways.push_back({{kMixed}, "mixed precision"});
  if (uses_reference(run.loss) && run.model.reference_dtype == config::Dtype::float32)
    ways.push_back({{"model.reference_dtype=null"}, "reference in the dtype of the policy"});
  // With an adapter, the reference needs no separate memory.
  if (can_be_cached(run) && !in.adapter)
    ways.push_back({{"reference=cached"}, "reference scores computed once, then the reference is freed"});
  if (run.fsdp_accumulate == config::Accumulation::whole)
    ways.push_back({{"fsdp_accumulate=sharded"}, "gradients accumulated in shards"});
  if (run.fsdp_reshard.value_or(config::Reshard::pass) != config::Reshard::pass)
    ways.push_back({{"fsdp_reshard=pass"}, "gathered weights freed after each pass"});
  if (run.mesh.replica.value_or(1) > 1)
    ways.push_back({without_replicas(run), "no replicas: each rank has a smaller part"});
  if (const auto& now = run.activation_checkpointing; !now.is_automatic() && now.count < in.shape.layers - 1)
    ways.push_back({{"activation_checkpointing=auto"}, "activation checkpointing"});
  return ways;
}

std::vector<Saving> savings_of_bits(const Inputs& in) {
  std::vector<Saving> ways = quantized_base(in);
  append(ways, state_savings(in));
  const std::optional<config::MeshShape> mesh = find_mesh(in);
  if (in.run.max_grad_norm && mesh && mesh->ranks() == 1 && !in.adapter)
    ways.push_back({{"max_grad_norm=null"}, "no clipping: gradients freed block by block"});
  if (in.run.fsdp_reduce_dtype == config::Dtype::float32 && in.run.trainer == config::Trainer::Fsdp)
    ways.push_back({{"fsdp_reduce_dtype=bfloat16"}, "gradients reduced in 16 bits"});
  if (in.run.model.policy_dtype == config::Dtype::float32)
    ways.push_back({{"model.policy_dtype=bfloat16"}, "weights in 16 bits"});
  return ways;
}

std::vector<Saving> savings_of_training(const Inputs& in) {
  const config::RunConfig& run = in.run;
  std::vector<Saving> ways = lora(in);
  if (run.optimizer == config::Optimizer::Adam || run.optimizer == config::Optimizer::AdamW)
    ways.push_back({switch_optimizer(run, config::Optimizer::RMSprop), "half of Adam's optimizer state"});
  if (run.optimizer != config::Optimizer::SGD)
    ways.push_back({switch_optimizer(run, config::Optimizer::SGD),
                    "SGD, without optimizer state (needs a far higher lr)"});
  for (const std::int64_t part : {2, 4}) {
    const std::int64_t length = run.max_length / part;
    if (length < kShortest) break;
    Overrides shorter = {fmt::format("max_length={}", length)};
    if (run.max_prompt_length >= length) shorter.push_back(fmt::format("max_prompt_length={}", length / 2));
    ways.push_back({shorter, "shorter texts: more is truncated"});
  }
  return ways;
}

}  // namespace

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Saving lora_of(const config::RunConfig& run) {
  Saving lora{{kLora}, "LoRA: only a low-rank update is trained (choose an lr ten times higher)"};
  // With an adapter, the reference is the model itself.
  if (run.model.reference_dtype) lora.overrides.push_back("model.reference_dtype=null");
  return lora;
}

bool can_be_mixed(const config::RunConfig& run) {
  return !run.model.fsdp_policy_mp && run.model.policy_dtype == config::Dtype::float32;
}

bool can_be_cached(const config::RunConfig& run) {
  return run.reference == config::ReferenceScoring::live && uses_reference(run.loss) && can_cache(run.loss);
}

bool may_change(const config::RunConfig& run, const Overrides& overrides) {
  if (!run.resume || *run.resume == "auto") return true;  // "auto" may find nothing to resume
  return std::ranges::none_of(overrides, [](const std::string& override_text) {
    const config::Field* field = config::find_field(key_of(override_text));
    return field ? field->effect == config::Effect::result : config::is_group(key_of(override_text));
  });
}

Inputs changed(const Inputs& in, const Overrides& overrides) {
  Inputs result = in;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    if (overrides[i] == "--gpus")
      result.machine.gpus = std::stoll(overrides[++i]);
    else if (overrides[i] == "--device")
      result.machine.device = load_device(overrides[++i]);
    else
      keys.push_back(overrides[i]);
  }
  result.run = config::with_overrides(in.run, keys);
  result.adapter = adapter_of(result.run, *result.table);
  if (result.adapter && in.quantization) result.run.adapter.base_dtype = base_dtype_of(*in.quantization);
  return result;
}

Overrides mesh_change(const config::RunConfig& run, config::Trainer trainer, const config::MeshConfig& mesh) {
  using Size = std::optional<std::int64_t>;
  Overrides overrides;
  if (run.trainer != trainer) overrides.push_back("trainer=" + name_of(trainer));
  const auto add = [&](const char* key, const Size& from, const Size& to, bool takes_rest) {
    if (takes_rest ? from == to : from.value_or(1) == to.value_or(1)) return;
    overrides.push_back(fmt::format("{}={}", key, to ? std::to_string(*to) : "null"));
  };
  add("mesh.replica", run.mesh.replica, mesh.replica, false);
  add("mesh.shard", run.mesh.shard, mesh.shard, trainer == config::Trainer::Fsdp);
  add("mesh.tensor", run.mesh.tensor, mesh.tensor, trainer == config::Trainer::TensorParallel);
  return overrides;
}

std::vector<Saving> savings_of(const Inputs& in, Cost least, Cost most) {
  using List = std::vector<Saving>(const Inputs&);
  constexpr std::pair<Cost, List*> kLists[] = {
      {Cost::little, little_savings}, {Cost::bits, savings_of_bits}, {Cost::training, savings_of_training}};
  std::vector<Saving> ways;
  for (const auto& [cost, savings] : kLists)
    if (least <= cost && cost <= most) append(ways, savings(in));
  std::erase_if(ways, [&](const Saving& way) { return !may_change(in.run, way.overrides); });
  return ways;
}

Saving joined(const std::vector<Saving>& savings) {
  Saving all;
  for (const Saving& saving : savings)
    for (const std::string& added : saving.overrides) {
      std::erase_if(all.overrides, [&](const std::string& other) { return key_of(other) == key_of(added); });
      all.overrides.push_back(added);
    }
  drop_unused(all.overrides);
  for (auto saving = savings.begin(); saving != savings.end(); ++saving)
    if (is_used(*saving, all.overrides) && !is_replaced(*saving, {saving + 1, savings.end()}))
      all.reason += (all.reason.empty() ? "" : ", ") + saving->reason;
  return all;
}

}  // namespace dpo::plan
