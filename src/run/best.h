// Decides which checkpoint of a run is the best by best_metric.
#pragma once

#include <span>
#include <string>

#include "config/run_config.h"
#include "run/metrics.h"
#include "run/state_files.h"
#include "train/batches.h"
#include "train/events.h"

namespace dpo::run {

// Returns "64 examples with SHA-256 0123456789abcdef". The hash does not depend on the order or batching of
// the examples.
std::string set_of(std::span<const train::ExampleBatch> evaluation);

// Must be called before the first evaluation. A run that is resumed with another metric or other examples
// begins a new comparison and prints a note about it.
void begin_comparison(RunState& run_state, const config::RunConfig& config,
                      std::span<const train::ExampleBatch> evaluation, const train::Listener& listener);

// Returns true and stores the value if this evaluation is better than all earlier ones.
bool is_new_best(RunState& run_state, const Metrics& metrics, const config::RunConfig& config);

}  // namespace dpo::run
