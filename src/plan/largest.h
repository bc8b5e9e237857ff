#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/savings.h"

namespace dpo::plan {

// Finds the fastest settings that do not change the result of training. If none fit, uses as few of the
// savings as possible. The resulting plan passes.
std::optional<Fit> find_fastest(const Inputs& in, const std::vector<Saving>& savings);

// Returns the errors, other than of memory, that the run has with every choice of the search. Settings that
// are not searched over cause them.
std::vector<std::string> lasting_errors(const Inputs& in);

// The largest model that can be trained in one way, and how.
struct LargestModel {
  Inputs in;  // of that model, before the changes of `fit`
  Fit fit;
};

// Finds the largest built-in model whose weights can all be trained on the machine with settings that do not
// change the result, then with rounding, then the same with LoRA. A way that reaches no model, or no larger
// one than the way before, is left out. Throws a UserError if no model can be trained with the settings,
// however small.
std::vector<LargestModel> find_largest(const config::RunConfig& run, const Machine& machine);

}  // namespace dpo::plan
