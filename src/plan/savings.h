#pragma once

#include <string>
#include <vector>

#include "plan/inputs.h"

namespace dpo::plan {

// Changes of a command: KEY=VALUE, --gpus N or --device NAME.
using Overrides = std::vector<std::string>;
Overrides operator+(Overrides a, const Overrides& b);

// Returns the run with these overrides added to its command.
Inputs changed(const Inputs& in, const Overrides& overrides);

// Returns the overrides that give the run this trainer and mesh. A size of 1 counts as unset, except for the
// key that takes the remaining ranks.
Overrides mesh_change(const config::RunConfig& run, config::Trainer trainer, const config::MeshConfig& mesh);

// False if the run is resumed and one of these overrides would change its result (run/identity.h).
bool may_change(const config::RunConfig& run, const Overrides& overrides);

// A change that needs less memory.
struct Saving {
  Overrides overrides;
  std::string reason;
};

// LoRA in place of training all weights.
inline constexpr const char* kLora = "adapter=lora";
Saving lora_of(const config::RunConfig& run);

// Return every setting that saves memory without changing the split of the batch. Harmless savings change
// only time and rounding, the cheapest first. Costly savings change the result of training or make updates
// much slower, the smallest change first.
std::vector<Saving> harmless_savings(const Inputs& in);
std::vector<Saving> costly_savings(const Inputs& in);
// Returns the costly savings that train the same weights: weights, gradients, optimizer state and frozen
// matrices in fewer bits, offloaded state, and gradients that are not kept.
std::vector<Saving> rounding_savings(const Inputs& in);
std::vector<Saving> all_savings(const Inputs& in);

// Joins all of them into one. If several set the same key, the last one counts.
Saving joined(const std::vector<Saving>& savings);

}  // namespace dpo::plan
