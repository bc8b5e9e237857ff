// The rules of a plan: what they read, how they report, and the rules themselves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace dpo::plan {

// The reference implementation's rule for FSDPTrainer.
inline constexpr std::int64_t kMinExamplesPerGpu = 2;

// The findings of all rules, in the order they are reported. With plan.strict, warnings are errors.
std::vector<Finding> check_rules(const Workload& w, const Plan& plan);

// Whether heads and MLP divide evenly over this many tensor-parallel ranks.
bool divides_layers(const model::ModelShape& shape, std::int64_t degree);

// The nearest multiples of `unit` at or below and above `value`; the lower one may be 0.
struct Multiples {
  std::int64_t below = 0;
  std::int64_t above = 0;
};
Multiples nearest_multiples(std::int64_t value, std::int64_t unit);

// What every rule reads.
struct Facts {
  const Workload& w;
  const Plan& plan;
  const config::RunConfig& run;
  const Machine& machine;
};

inline Finding ok(const char* id, std::string message) { return {id, Verdict::ok, std::move(message), {}}; }
inline Finding hint(const char* id, std::string message) {
  return {id, Verdict::hint, std::move(message), {}};
}
inline Finding warning(const char* id, std::string message) {
  return {id, Verdict::warning, std::move(message), {}};
}
inline Finding error(const char* id, std::string message) {
  return {id, Verdict::error, std::move(message), {}};
}

// What a rank has to itself: "GPU", or "rank" where several share one, and on a CPU.
const char* device_word(const Facts& facts);

// What the batch is divided over: "4 GPUs", "2 groups of 4 GPUs".
std::string data_ranks_text(const Facts& facts);

// A rule returns nullopt where it does not apply.
using Rule = std::optional<Finding>(const Facts& facts);

// How the batch and the layers are divided (rules.cpp).
Rule batch_per_gpu, tokens_per_gpu, batch_divides, accumulation, heads_divide, tensor_links, optimizer_split;

// What the machine can do and hold (device_rules.cpp).
Rule unused_gpus, precision, spread, idle_gpus, memory, gradients, offload, disk, host_memory;

// Products in 8 bits (fp8.cpp).
Rule fp8;

// When a run evaluates and saves (interval_rules.cpp).
Rule eval_every, save_every, best_metric, eval_batch;

// What a run learns from, and how fast (learning_rules.cpp).
Rule prompt_room, context, loss_scale, adapter, base_dtype, experts, reference_model, mismatched,
    label_balance, lengths, truncation, full_batch, warmup, known_settings;

}  // namespace dpo::plan
