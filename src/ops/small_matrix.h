#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Numbers of few bits. nf4: one of 16 levels, with a scale for each 64 elements, which has 8 bits itself
// (QLoRA, as bitsandbytes does it). int8, fp8 (e4m3): with a scale for each row.
enum class SmallDtype { nf4, int8, fp8 };

inline constexpr std::int64_t kNf4Block = 64, kNestedBlock = 256;

// A frozen matrix in few bits. The same matrix gives the same bits on every device.
struct SmallMatrix {
  SmallDtype dtype{};
  at::Tensor codes;   // uint8, one for each element; of nf4 two to a byte, the first in the high bits
  at::Tensor scales;  // float32 [rows]; of nf4 uint8, a code for each block
  // Of nf4: the scale of block i is DynamicMap[scales[i]] * nested[i / 256] + offset. Without `nested` the
  // scales are float32, as they are.
  at::Tensor nested = {};  // float32
  float offset = 0;        // the mean of all scales
};

// Of a matrix [rows, columns], float32 or 16 bits.
SmallMatrix to_small(const at::Tensor& matrix, SmallDtype dtype);

// Writes the values into a contiguous matrix of the same shape, float32 or 16 bits.
void from_small(const SmallMatrix& matrix, at::Tensor into);

SmallMatrix to_device(const SmallMatrix& matrix, at::Device device);

}  // namespace dpo::ops
