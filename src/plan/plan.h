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

// A change that was planned itself and holds: the words to add to the command.
struct Remedy {
  std::vector<std::string> overrides;
  std::string reason;
};

struct Finding {
  std::string id;
  Verdict verdict = Verdict::ok;
  std::string message;
  std::vector<Remedy> remedies;
};

// What a checkpoint takes, and all of them together.
struct Disk {
  double checkpoint = 0;
  std::int64_t checkpoints = 0;
  double total() const { return checkpoint * static_cast<double>(checkpoints); }
};

struct Plan {
  config::RunConfig resolved;  // with eval_every and save_every as the run will use them
  config::MeshShape mesh;
  bool on_cpu = false;
  Reference reference{};
  Precision precision;
  double examples_per_gpu = 0;
  double tokens_per_gpu = 0;
  ExampleTokens example;
  Memory memory;
  Timing timing;
  Disk disk;
  std::vector<Finding> findings;

  bool fits() const { return memory.fits(); }
  bool has(Verdict verdict) const;
  bool good() const { return !has(Verdict::error); }
  const Finding* find(std::string_view id) const;
};

// Memory, time and rules, without remedies: what remedies and the search are judged by.
Plan assess(const Inputs& in);

// The whole plan: every warning and error with the remedies that hold.
Plan make_plan(const Inputs& in);

struct Fit {
  std::vector<std::string> overrides;  // what to change; empty: it is the fastest already
  Plan plan;
};

// The fastest split of the batch, precision, checkpointing, reference and trainer that fits and keeps every
// rule, for the batch size and the devices given. Where none fits, also with weights in 16 bits, another
// optimizer or shorter texts; nothing when that is not enough.
std::optional<Fit> find_fastest(const Inputs& in);

}  // namespace dpo::plan
