#pragma once

#include <algorithm>
#include <cstdint>

namespace dpo::model {

// Whether a layer is one of `count` that are recomputed in the backward pass. Those that are kept are spread
// evenly, so that GPUs which hold different layers save alike. The last one is kept unless none is: when
// another one is recomputed, its memory is free again.
constexpr bool is_recomputed(std::int64_t layer, std::int64_t count, std::int64_t layers) {
  const std::int64_t kept = std::max<std::int64_t>(0, layers - count);
  return (layers - 1 - layer) * kept % layers >= kept;
}

}  // namespace dpo::model
