#pragma once

#include <chrono>

#include "comm/group.h"
#include "comm/launch.h"

namespace dpo::comm {

// All ranks of a run, and this one's place among the ranks of its machine.
struct World {
  std::shared_ptr<Group> all = single();
  int local_rank = 0, local_size = 1;
};

// Connects this process with the others that its launcher started: over NCCL where each has a GPU of its own,
// otherwise over MPI. A UserError where neither is possible. `rank_timeout`: the timeout of operations over
// NCCL follows from it.
World connect(const Launch& launch, std::chrono::milliseconds rank_timeout = std::chrono::minutes(1));

}  // namespace dpo::comm
