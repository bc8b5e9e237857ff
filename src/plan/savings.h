#pragma once

#include <string>
#include <vector>

#include "plan/inputs.h"

namespace dpo::plan {

// KEY=VALUE, --gpus N or --device NAME.
using Overrides = std::vector<std::string>;
Overrides operator+(Overrides a, const Overrides& b);

// The same run with these overrides added to its command.
Inputs changed(const Inputs& in, const Overrides& overrides);

// What gives the run this trainer and mesh. A size of 1 is as good as none, except that of the key that takes
// the remaining ranks.
Overrides mesh_change(const config::RunConfig& run, config::Trainer trainer, const config::MeshConfig& mesh);

// Whether the run may have these: one that is resumed from a folder must train as it did (run/identity.h).
bool may_change(const config::RunConfig& run, const Overrides& overrides);

// A change that needs less memory.
struct Saving {
  Overrides overrides;
  std::string reason;
};

// LoRA in place of training all weights.
inline constexpr const char* kLora = "adapter=lora";
Saving lora_of(const config::RunConfig& run);

// Every setting that saves memory without changing the split of the batch: those that change only time and
// rounding, the cheapest first; and those that change the result of training or make updates much slower, the
// smallest change first.
std::vector<Saving> harmless_savings(const Inputs& in);
std::vector<Saving> costly_savings(const Inputs& in);
// Of the costly ones those that train the same weights: state and frozen matrices in fewer bits or elsewhere,
// gradients that are not kept.
std::vector<Saving> rounding_savings(const Inputs& in);
std::vector<Saving> all_savings(const Inputs& in);

// All of them as one; of overrides for the same key the last one counts.
Saving joined(const std::vector<Saving>& savings);

}  // namespace dpo::plan
