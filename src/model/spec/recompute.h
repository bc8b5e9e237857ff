#pragma once

#include <algorithm>
#include <cstdint>

#include "model/spec/table.h"

namespace dpo::model {

// True if a layer is one of the `count` layers that are recomputed in the backward pass. The layers that are
// kept are spread evenly, so that GPUs that hold different layers save the same amount of memory. The last
// layer is kept unless none is: its memory is free again when another layer is recomputed.
constexpr bool is_recomputed(std::int64_t layer, std::int64_t count, std::int64_t layers) {
  const std::int64_t kept = std::max<std::int64_t>(0, layers - count);
  return (layers - 1 - layer) * kept % layers >= kept;
}

// True if a block is such a layer of a model with this many layers.
inline bool is_recomputed(const Block& block, std::int64_t count, std::int64_t layers) {
  return block.kind == BlockKind::layer &&
         is_recomputed(static_cast<std::int64_t>(block.layer), count, layers);
}

}  // namespace dpo::model
