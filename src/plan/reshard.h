#pragma once

#include "plan/inputs.h"

namespace dpo::plan {

// Share of a microbatch's passes that gather blocks: 1 if gathered blocks are freed after each pass. If they
// are kept, the first of an update's passes gathers, or none does.
struct GatheringPasses {
  double forward = 1, backward = 1;  // of the policy
  double scoring = 1;                // passes of the policy without gradients
  double reference = 1;
};

GatheringPasses gathering_passes(const Workload& w);

// Returns the bytes of gathered blocks that stay in memory between passes.
double kept_bytes(const Workload& w);

// True if the blocks of the model that is trained, or is under the adapter, stay.
bool keeps_model(const Workload& w);

// Sets when gathered blocks are freed, by fsdp_reshard or else the fastest way that fits, and the layers to
// recompute, which a choice of the plan does not make more.
void decide_reshard(Workload& w);

}  // namespace dpo::plan
