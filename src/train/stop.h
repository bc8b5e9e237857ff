#pragma once

#include "base/stop.h"
#include "shard/mesh.h"

namespace dpo::train {

// Whether a signal asked any rank to stop. All ranks ask together, so that they agree.
inline bool is_stop_asked(const shard::Mesh& mesh) {
  return shard::max_over(*mesh.all, stop_requested() ? 1 : 0, mesh.device) > 0;
}

}  // namespace dpo::train
