#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/savings.h"

namespace dpo::plan {

// The fastest with settings that do not change the result of training; where none fits, with as few of the
// savings as possible. It passes.
std::optional<Fit> find_fastest(const Inputs& in, const std::vector<Saving>& savings);

// The errors, other than of memory, that the run has with every choice of the search: settings that are not
// searched over cause them.
std::vector<std::string> lasting_errors(const Inputs& in);

// The largest model that can be trained in one way, and how.
struct LargestModel {
  Inputs in;  // of that model, before the changes of `fit`
  Fit fit;
};

// Of the models whose sizes are built in, the largest whose weights can all be trained on the machine with
// settings that do not change the result, then with rounding, then the same with LoRA. A way that reaches no
// larger model than the one before is left out, and so is one that reaches none. Settings with which no model
// can be trained, however small, are a UserError.
std::vector<LargestModel> find_largest(const config::RunConfig& run, const Machine& machine);

}  // namespace dpo::plan
