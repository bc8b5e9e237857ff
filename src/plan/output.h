#pragma once

#include <string>

#include "plan/largest.h"
#include "plan/plan.h"

namespace dpo::plan {

// Returns one JSON object: examples_per_gpu, rules, memory, time, disk, resolved, fits (and `fit` after a
// search).
std::string to_json(const Plan& plan, const Inputs& in, const std::optional<Fit>& fit);

// Returns the plan for people: what is planned, rules, memory, time. `colours` adds ANSI colours.
std::string to_text(const Plan& plan, const Inputs& in, bool colours);
std::string memory_to_text(const Plan& plan);  // the memory part alone
std::string to_text(const Fit& fit, const Plan& before);

// Returns the answer of 'dpo plan --largest' for this run and machine.
std::string to_text(const std::vector<LargestModel>& models, const config::RunConfig& run,
                    const Machine& machine, bool colours);
std::string to_json(const std::vector<LargestModel>& models);

// The folder that a run writes to, and the checkpoint that it resumes from; empty: a new run.
struct RunPaths {
  std::string folder;
  std::string checkpoint;
};

struct TextStyle {
  bool colours = false;
  std::size_t width = std::string::npos;  // of a line; longer ones are wrapped
};

// Returns the plan in five lines, for the start of a run: what is trained, on which data, how, what it needs,
// where it writes.
std::string to_banner(const Plan& plan, const Inputs& in, const RunPaths& paths, const TextStyle& style);
std::string warnings_to_text(const Plan& plan, const TextStyle& style);

std::string_view name_of(Verdict verdict);
std::string_view name_of(ReferenceMode reference);

}  // namespace dpo::plan
