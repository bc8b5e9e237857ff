// Compact formats for numbers of optimizer state and weights, shared by the CUDA kernels, the CPU loops of
// ops/split_floats.cpp, and the tests that compare both with LibTorch's operators (src/optim).
#pragma once

#include <cstdint>

#include "base/splitmix64.h"

namespace dpo::ops {

// Returns random bits for the element with this index. Each array of an update takes 16 of them, its lane.
// `key` is the hash of a seed.
DPO_HOST_DEVICE inline std::uint64_t random_bits(std::uint64_t key, std::int64_t element) {
  return splitmix64(key + static_cast<std::uint64_t>(element));
}
DPO_HOST_DEVICE inline std::uint32_t lane_of(std::uint64_t bits, int lane) {
  return static_cast<std::uint32_t>(bits >> (16 * lane)) & 0xFFFFU;
}

// Rounds a float32 number, given as its bits, stochastically to bfloat16, which is the upper half of the
// result. Adding noise to the lower half carries into the upper half with a probability proportional to the
// lower half. Infinities and NaN do not change.
DPO_HOST_DEVICE inline std::uint32_t rounded_bits(std::uint32_t value, std::uint32_t noise) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  return (value & kExponent) == kExponent ? value : (value + noise) & 0xFFFF0000U;
}

// Returns the bits of a float32 number from its two parts (ops/split_floats.h): its bfloat16 rounding, its
// lower half, and whether it was rounded up.
DPO_HOST_DEVICE inline std::uint32_t joined_bits(std::uint16_t rounded, std::uint16_t low,
                                                 std::uint32_t carry) {
  return ((rounded - carry) << 16) | low;
}
DPO_HOST_DEVICE inline std::uint32_t carry_of(std::uint32_t exact, std::uint16_t rounded) {
  return ((exact >> 16) ^ rounded) & 1U;
}

// Returns the code of a number between -1 and 1: the nearest entry of `map`, which is ascending; the lower
// one if two are equally near. A negative number never becomes 0, as in bitsandbytes' optimizers, because its
// sign decides the direction of an update. In a map without signs no nonzero number becomes 0, because the
// update divides by the average of squared gradients.
DPO_HOST_DEVICE inline std::uint8_t code_of(float value, const float* map) {
  int low = 0;  // the result is `low`, or `low` plus some of the steps
  for (int step = 128; step > 0; step /= 2)
    if (low + step < 256 && value > 0.5F * (map[low + step - 1] + map[low + step])) low += step;
  if (map[low] == 0 && value < 0) --low;
  if (low == 0 && map[0] == 0 && value > 0) ++low;
  return static_cast<std::uint8_t>(low);
}

}  // namespace dpo::ops
