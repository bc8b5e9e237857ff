#pragma once

#include "comm/launch.h"
#include "comm/world.h"

namespace dpo::comm {

// Connects this process with the others that its launcher started: over NCCL where each has a GPU of its own,
// else over MPI. A UserError where they have no way to talk.
World connect(const Launch& launch);

}  // namespace dpo::comm
