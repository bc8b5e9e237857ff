#pragma once

#include <vector>

#include "plan/plan.h"

namespace dpo::plan {

// Changes that make the finding go away, in the order they should be tried. Each was planned: it keeps the
// rule, fits in memory and brings no new error.
std::vector<Remedy> remedies_for(const Finding& finding, const Inputs& in);

// What a run that does not fit here needs when every key saves what it can, in words.
std::string least_memory_needed(const Inputs& in);

}  // namespace dpo::plan
