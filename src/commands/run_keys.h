// Checks and adapts the keys of a run to its model and data, before anything long begins.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "commands/data_lengths.h"
#include "config/compose.h"
#include "plan/inputs.h"

namespace dpo::commands {

// Checks the files that keys name, whether or not the run reads them, and adapts defaults that nobody gave:
// to the model, if its sizes are on this machine, and to each other. The notes of the result are new ones
// only: which defaults have changed, and which data are meant where a name could mean two.
config::Resolved adapted(config::Resolved resolved);

// Adapts defaults to the number of training examples: a batch is not larger than the data.
config::Resolved adapted_to_data(config::Resolved resolved, const plan::ExampleUnit& unit);

// A run with defaults that fit its model and its data, and what was counted of the data.
struct FittedRun {
  config::Resolved resolved;
  CountedData data;
};

// Counts the data and adapts defaults to model and data. `say` gets a note for each change.
FittedRun fitted(const config::Resolved& asked, const std::function<void(const std::string& note)>& say);

// One note that names the given keys that have no effect; none if all have one.
std::vector<std::string> unused_keys_notes(const config::Resolved& resolved);

}  // namespace dpo::commands
