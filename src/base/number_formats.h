// Sizes of quantized number formats. Operators, kernels and the planner read them here.
#pragma once

#include <cstdint>

namespace dpo {

// nf4: the elements that share a scale, and the scales that share a float32 factor if they have 8 bits.
inline constexpr std::int64_t kNf4Block = 64, kNestedBlock = 256;

// Returns the bytes of an nf4 element with its share of the scales. `has_nested`: the scales have 8 bits.
constexpr double nf4_bytes(bool has_nested, std::int64_t block = kNf4Block) {
  const double scale = has_nested ? 1 + 4 / static_cast<double>(kNestedBlock) : 4;
  return 1.0 / 2 + scale / static_cast<double>(block);
}

// 8-bit optimizer state: the elements that share a scale, which is their largest magnitude, as in
// bitsandbytes; the bytes of an element with its share of the scale.
inline constexpr std::int64_t kStateGroup = 256;
inline constexpr double kStateCodeBytes = 1 + 4 / static_cast<double>(kStateGroup);

// Float32 numbers in two parts (ops/split_floats.h): the bytes of the rest, 16 bits and a carry.
inline constexpr double kFloatRestBytes = 2 + 1.0 / 8;

// The sizes of an FP8 matmul on a GPU must be multiples of this number.
inline constexpr std::int64_t kFp8Multiple = 16;

}  // namespace dpo
