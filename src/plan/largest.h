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

// Finds the largest built-in model that can be trained on the machine in each of three ways: all weights with
// settings that do not change the result, all weights with coarser rounding, and LoRA. Leaves out a way that
// reaches no larger model than the one before. Throws a UserError if not even the smallest model can be
// trained.
std::vector<LargestModel> find_largest(const config::RunConfig& run, const Machine& machine);

}  // namespace dpo::plan
