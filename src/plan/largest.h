#pragma once

#include <vector>

#include "plan/plan.h"

namespace dpo::plan {

// The largest model that can be trained in one way, and how.
struct LargestModel {
  Inputs in;  // of that model, before the changes of `fit`
  Fit fit;
};

// Finds the largest built-in model that can be trained on the machine in each of three ways: all weights with
// settings that do not change the result, all weights with coarser rounding, and LoRA. Leaves out a way that
// reaches no larger model than the one before. Throws a UserError if not even the smallest model can be
// trained.
std::vector<LargestModel> find_largest(const config::RunConfig& run, const Machine& machine);

}  // namespace dpo::plan
