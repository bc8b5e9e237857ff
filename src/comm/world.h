#pragma once

#include "comm/group.h"

namespace dpo::comm {

// All processes of a run, and which of those on its machine this one is.
struct World {
  std::shared_ptr<Group> all = single();
  int local_rank = 0, local_size = 1;
};

}  // namespace dpo::comm
