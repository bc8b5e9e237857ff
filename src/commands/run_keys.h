// Checks a run's keys and adapts them to its model and data before any long work.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "commands/data_lengths.h"
#include "config/compose.h"
#include "plan/inputs.h"

namespace dpo::commands {

// Checks the files that keys name, even if the run does not read them. Adapts defaults that the user did not
// give to each other, and to the model if its sizes are on this machine. The result contains only new notes:
// changed defaults, and the data chosen where a name has two meanings.
config::Resolved adapted(config::Resolved resolved);

// Adapts defaults to the number of training examples, so that a batch is not larger than the data.
config::Resolved adapted_to_data(config::Resolved resolved, const plan::ExampleUnit& unit);

// A run with defaults that fit its model and data, and the counts of its data.
struct FittedRun {
  config::Resolved resolved;
  CountedData data;
};

// Counts the data and adapts defaults to model and data. `say` is called with a note for each change.
FittedRun fitted(const config::Resolved& asked, const std::function<void(const std::string& note)>& say);

// Returns one note that names the given keys that have no effect, or nothing if all have one.
std::vector<std::string> unused_keys_notes(const config::Resolved& resolved);

}  // namespace dpo::commands
