#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/inputs.h"
#include "plan/memory.h"
#include "plan/timing.h"

namespace dpo::plan {

enum class Verdict { ok, hint, warning, error };

// A change that fixes a finding. A rule may propose any change; make_plan keeps those that work.
struct Remedy {
  std::vector<std::string> overrides;  // to add to the command: KEY=VALUE, --gpus N, --device NAME
  std::string reason;
};

struct Finding {
  std::string id;
  Verdict verdict = Verdict::ok;
  std::string message;
  std::vector<Remedy> remedies;
};

// Disk space that the checkpoints of a run need.
struct Disk {
  double checkpoint = 0;  // bytes of one
  std::int64_t checkpoints = 0;
  double merged = 0;  // bytes of the model that adapter.merge_on_save writes
  double total() const { return checkpoint * static_cast<double>(checkpoints) + merged; }
};

struct Plan {
  config::RunConfig resolved;  // with eval_every and save_every as the run uses them
  config::MeshShape mesh;
  bool on_cpu = false;
  std::int64_t ranks_per_device = 1;
  ReferenceMode reference{};
  double examples_per_gpu = 0;
  double tokens_per_gpu = 0;
  ExampleTokens example;
  Memory memory;
  Timing timing;
  Disk disk;
  std::vector<Finding> findings;

  bool fits() const { return memory.fits(); }
  bool has(Verdict verdict) const;
  bool passes() const { return !has(Verdict::error); }
  const Finding* find(std::string_view id) const;
};

// Id of the rule that checks that the data fills at least one batch. Otherwise there is no update to plan.
inline constexpr const char* kFullBatch = "batch-size";
void require_full_batch(const Plan& plan);

// Computes memory, time and rules, without remedies. Remedies and the search call it for every candidate.
Plan assess(const Inputs& in);

// Makes the whole plan: every warning and error with the remedies that work.
Plan make_plan(const Inputs& in);

// Returns changes that fix a finding of `plan`, in the order to try them. Each was planned: the finding gets
// better, a run that fits still does, and there is no new error.
std::vector<Remedy> remedies_for(const Finding& finding, const Plan& plan, const Inputs& in);

// Returns a message for a run that fits with no settings: the memory that it needs with all savings together.
std::string least_memory_needed(const Inputs& in);

struct Fit {
  std::vector<std::string> overrides;  // what to change; empty: the plan is already the fastest
  Plan plan;
  std::string costs{};  // which of these change the result of training; empty: none

  // Returns the ids of the rules that this plan still breaks, because no choice of the search avoids them.
  std::vector<std::string> errors() const;
};

// Finds the fastest combination of trainer, mesh, accumulation steps, precision, activation checkpointing and
// reference that fits and keeps every rule, for the given batch size and devices. If none fits, savings that
// change the result are tried too (see savings_of); nullopt if that is not enough. Errors that are not
// about memory, and that other settings cause, stay (see Fit::errors).
std::optional<Fit> find_fastest(const Inputs& in);

}  // namespace dpo::plan
