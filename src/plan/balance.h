#pragma once

#include "plan/inputs.h"

namespace dpo::plan {

// Returns the expected work of the slowest rank over the mean: 1 with one rank. Batches of sampled lengths
// are divided as training divides them.
double slowest_rank(const Workload& w);

// Returns the workload with this multiple of every microbatch's tokens, rows and attention.
Workload with_work(const Workload& w, double times);

}  // namespace dpo::plan
