// How wide the CPU's loops over rows are.
#pragma once

#include <cstdint>

namespace dpo::ops {

inline constexpr std::int64_t kLanes = 16;  // independent sums and maxima, so that a loop can work on vectors

}  // namespace dpo::ops
