// Numbers of the plan's formulas.
#pragma once

#include <cstdint>

namespace dpo::plan {

inline constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

inline double to_double(std::int64_t count) { return static_cast<double>(count); }

}  // namespace dpo::plan
