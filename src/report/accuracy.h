// Reward accuracies as people read them. Files keep the original's number, which is 0 for ties.
#pragma once

#include <cstdint>
#include <string>

#include "base/number_line.h"

namespace dpo::report {

// Returns whether all pairs behind these means are ties, as before the first update, when policy and
// reference are the same model: no margin is positive, and their mean is 0.
bool are_ties(double accuracy, double margin);

// The accuracy, with a half for ties.
double accuracy_of(double accuracy, double margin);

// "0.812 (n=16)", or "0.5 (ties, n=16)". `examples`: the number of held-out examples; 0: not shown.
std::string accuracy_text(double accuracy, double margin, std::int64_t examples = 0);

// Replaces the accuracies of a line of metrics.jsonl by accuracy_of.
void count_ties_as_half(NamedNumbers& metrics);

}  // namespace dpo::report
