#pragma once

#include <chrono>

#include "comm/group.h"
#include "comm/launch.h"

namespace dpo::comm {

// All ranks of a run, and this rank's position on its machine.
struct World {
  std::shared_ptr<Group> all = single();
  int local_rank = 0, local_size = 1;
};

// Connects this process with the others that its launcher started: over NCCL if each has its own GPU,
// otherwise over MPI. Throws a UserError if neither is possible. `rank_timeout` determines the timeout of
// NCCL operations.
World connect(const Launch& launch, std::chrono::milliseconds rank_timeout = std::chrono::minutes(1));

}  // namespace dpo::comm
