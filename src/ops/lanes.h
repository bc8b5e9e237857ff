// The vector width of the CPU's loops over rows.
#pragma once

#include <cstdint>

namespace dpo::ops {

inline constexpr std::int64_t kLanes = 16;  // independent sums and maxima, so that a loop can be vectorized

}  // namespace dpo::ops
