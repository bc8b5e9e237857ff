#pragma once

#include <string>

#include "plan/plan.h"

namespace dpo::plan {

// One JSON object: examples_per_gpu, rules, memory, time, disk, resolved, fits (and `fit` after a search).
std::string to_json(const Plan& plan, const Inputs& in, const std::optional<Fit>& fit);

// The plan for people: what is planned, rules, memory, time. `colours`: with ANSI colours.
std::string to_text(const Plan& plan, const Inputs& in, bool colours);
std::string memory_to_text(const Plan& plan);  // that part alone
std::string to_text(const Fit& fit, const Plan& before);

std::string_view name_of(Verdict verdict);
std::string_view name_of(ReferenceMode reference);

}  // namespace dpo::plan
