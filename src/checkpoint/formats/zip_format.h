// What reader and writer of zip archives share of the format.
#pragma once

#include <cstdint>

namespace dpo::checkpoint {

inline constexpr std::uint16_t kExtraOf64 = 1;
inline constexpr std::uint64_t kIn64Bits = 0xffffffff;  // "see the extra field"

}  // namespace dpo::checkpoint
