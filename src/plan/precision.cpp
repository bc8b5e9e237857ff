#include "plan/precision.h"

#include <fmt/format.h>

#include "loss/loss.h"

namespace dpo::plan {
namespace {

std::int64_t bytes_of(const std::string& dtype) { return dtype == "float32" ? 4 : 2; }

}  // namespace

Precision precision_of(const config::RunConfig& run, std::int64_t data_ranks) {
  const std::string& stored = run.model.policy_dtype;
  const std::string& compute = run.model.fsdp_policy_mp.value_or(stored);
  Precision p;
  p.weights = bytes_of(compute);
  // Sums over several microbatches or ranks would lose the small ones in 16 bits.
  p.gradients = run.gradient_accumulation_steps > 1 || data_ranks > 1 ? 4 : p.weights;
  p.half = p.weights == 2;
  p.master = p.half && stored == "float32" ? 4 : 0;
  p.state = bytes_of(stored);
  p.reduction = bytes_of(run.fsdp_reduce_dtype);
  p.reference = bytes_of(run.model.reference_dtype.value_or(compute));
  return p;
}

std::optional<std::string> resolve_precision(config::ModelConfig& model, const Device& device) {
  if (model.fsdp_policy_mp != "auto") return std::nullopt;
  model.fsdp_policy_mp.reset();
  if (model.policy_dtype != "float32")
    return fmt::format("model.fsdp_policy_mp=auto computes in {}, the type of the weights",
                       model.policy_dtype);
  const double half = device.step_rate(true) / 1e12, single = device.step_rate(false) / 1e12;
  if (device.has_half && half > single) model.fsdp_policy_mp = "bfloat16";
  return fmt::format(
      "model.fsdp_policy_mp=auto computes in {}, the faster type here: {} gets about {:.2g} TFLOP/s in "
      "float32 and {} in bfloat16",
      model.fsdp_policy_mp.value_or("float32"), device.name, single,
      device.has_half ? fmt::format("{:.2g}", half) : "none");
}

bool is_preference(const config::LossConfig& loss) { return loss.name != "sft"; }

// KTO also scores prompts with the responses of other examples, which differ from batch to batch.
bool can_cache(const config::LossConfig& loss) { return !loss::is_unpaired({.name = loss.name}); }

bool needs_reference(const config::LossConfig& loss) {
  return loss::uses_reference({.name = loss.name, .reference_free = loss.reference_free});
}

}  // namespace dpo::plan
