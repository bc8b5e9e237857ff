// Reward accuracies for display: 0.5 if all pairs are ties. Files keep the original value, in which a tie
// counts as 0.
#pragma once

#include <cstdint>
#include <string>

#include "base/number_line.h"

namespace dpo::report {

// Returns true if all pairs behind these means are ties: no margin is positive, and their mean is 0. This is
// so before the first update, when policy and reference are the same model.
bool are_ties(double accuracy, double margin);

// Returns the accuracy, or 0.5 if all pairs are ties.
double accuracy_of(double accuracy, double margin);

// Returns "0.812 (n=16)", or "0.5 (ties, n=16)". `examples` is the number of held-out examples; 0: not shown.
std::string accuracy_text(double accuracy, double margin, std::int64_t examples = 0);

// Replaces the accuracies in a line of metrics.jsonl by those of accuracy_of.
void count_ties_as_half(NamedNumbers& metrics);

}  // namespace dpo::report
