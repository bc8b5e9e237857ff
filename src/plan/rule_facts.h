// What the rules share: what they read, and how they say what they found.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.h"

namespace dpo::plan {

// What every rule reads.
struct Facts {
  const Case& c;
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

// "GPU", or "rank" on a CPU.
const char* device_word(const Facts& facts);

// What the batch is divided over: "4 GPUs", "2 groups of 4 GPUs".
std::string data_ranks_text(const Facts& facts);

// Rules about when a run evaluates and saves (interval_rules.cpp). Nothing: the rule has no say here.
std::optional<Finding> eval_every(const Facts& facts);
std::optional<Finding> save_every(const Facts& facts);
std::optional<Finding> best_metric(const Facts& facts);
std::optional<Finding> eval_batch(const Facts& facts);
std::optional<Finding> disk(const Facts& facts);
std::optional<Finding> host_memory(const Facts& facts);

// Rules about what the device can do (device_rules.cpp).
std::optional<Finding> unused_gpus(const Facts& facts);
std::optional<Finding> precision(const Facts& facts);

// Rules about what a run learns from, and how fast (learning_rules.cpp).
std::optional<Finding> mismatched(const Facts& facts);
std::optional<Finding> lengths(const Facts& facts);
std::optional<Finding> warmup(const Facts& facts);
std::optional<Finding> known_settings(const Facts& facts);

}  // namespace dpo::plan
