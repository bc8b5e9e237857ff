#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/savings.h"

namespace dpo::plan {

// The fastest with settings that do not change the result of training; where none fits, with as few of the
// savings as possible.
std::optional<Fit> find_fastest(const Inputs& in, const std::vector<Saving>& savings);

// The largest model that can be trained in one way, and how.
struct LargestModel {
  Inputs in;  // of that model, before the changes of `fit`
  Fit fit;
};

// Of the models whose sizes are built in, the largest whose weights can all be trained on the machine with
// settings that do not change the result, then with rounding, then the same with LoRA. A way that reaches no
// larger model than the one before is left out, and so is one that reaches none.
std::vector<LargestModel> find_largest(const config::RunConfig& run, const Machine& machine);

}  // namespace dpo::plan
