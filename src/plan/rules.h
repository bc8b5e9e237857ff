// Declares the rules of a plan, what they read, and how they report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace dpo::plan {

// Minimum of the reference implementation for FSDPTrainer.
inline constexpr std::int64_t kMinExamplesPerGpu = 2;

// Returns the findings of all rules, in the order they are reported. With plan.strict, warnings are errors.
std::vector<Finding> check_rules(const Workload& w, const Plan& plan);

// True if heads and MLP divide evenly over this many tensor-parallel ranks.
bool divides_layers(const model::ModelShape& shape, std::int64_t degree);

// The nearest multiples of `unit` at or below and above `value`; the lower one may be 0.
struct Multiples {
  std::int64_t below = 0;
  std::int64_t above = 0;
};
Multiples nearest_multiples(std::int64_t value, std::int64_t unit);

// The input of every rule.
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

// Returns the noun for one rank's device in messages: "GPU", or "rank" if several share one, and on a CPU.
const char* device_word(const Facts& facts);

// Returns a text for what the batch is divided over: "4 GPUs", "2 groups of 4 GPUs".
std::string data_ranks_text(const Facts& facts);

// A rule returns nullopt if it does not apply.
using Rule = std::optional<Finding>(const Facts& facts);

// Rules about how the batch and the layers are divided (rules.cpp).
Rule batch_per_gpu, tokens_per_gpu, batch_divides, accumulation, heads_divide, tensor_links, optimizer_split;

// Rules about what the machine can do and hold (device_rules.cpp).
Rule unused_gpus, precision, spread, idle_gpus, memory, gradients, offload, disk, host_memory;

// Rule about FP8 matmuls (fp8.cpp).
Rule fp8;

// Rules about when a run evaluates and saves (interval_rules.cpp).
Rule eval_every, save_every, best_metric, eval_batch;

// Rules about what a run learns from, and how fast (learning_rules.cpp).
Rule prompt_room, context, loss_scale, adapter, base_dtype, experts, reference_model, mismatched,
    label_balance, lengths, truncation, full_batch, warmup, known_settings;

}  // namespace dpo::plan
