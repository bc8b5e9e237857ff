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

// True if mixed precision, or reference scores that are computed once, would be a change. The search for the
// fastest settings tries them too.
inline constexpr const char* kMixed = "model.fsdp_policy_mp=bfloat16";
bool can_be_mixed(const config::RunConfig& run);
bool can_be_cached(const config::RunConfig& run);

// The cost of a saving. little: time, and rounding in the usual dtypes. bits: weights, gradients, optimizer
// state or frozen matrices in fewer bits, no clipping, or much slower updates, of the same weights. training:
// other weights are trained, with another optimizer, or on shorter texts.
enum class Cost { little, bits, training };

// Returns every setting that saves memory without changing the split of the batch, in the order to try them:
// the lowest cost first, and the smallest change first.
std::vector<Saving> savings_of(const Inputs& in, Cost least = Cost::little, Cost most = Cost::training);

// Joins all of them into one. If several set the same key, the last one counts.
Saving joined(const std::vector<Saving>& savings);

}  // namespace dpo::plan
