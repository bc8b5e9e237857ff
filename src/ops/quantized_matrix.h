#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/number_formats.h"

namespace dpo::ops {

// Quantized number formats. nf4: 16 levels, with one 8-bit scale per 64 elements (QLoRA, as in bitsandbytes).
// int8 and fp8 (e4m3): one float32 scale per row.
enum class QuantizedDtype { nf4, int8, fp8 };

// A frozen quantized matrix. Its values have the same bits on every device.
struct QuantizedMatrix {
  QuantizedDtype dtype{};
  at::Tensor codes;   // uint8, one per element; nf4: two per byte, the first in the high bits
  at::Tensor scales;  // float32 [rows]; nf4: uint8, a code for each block
  // For nf4, the scale of block i is DynamicMap[scales[i]] * nested[i / 256] + offset. Without `nested`,
  // `scales` holds the float32 scales themselves.
  at::Tensor nested = {};          // float32
  float offset = 0;                // the mean of all scales
  std::int64_t block = kNf4Block;  // elements per nf4 scale; fewer in some parts of a matrix
};

// Rows or columns [from, from + count).
struct Slice {
  std::int64_t from = 0, count = 0;
};

// Quantizes a matrix, [rows, columns] in float32 or 16 bits.
QuantizedMatrix quantize(const at::Tensor& matrix, QuantizedDtype dtype);

// Dequantizes into a contiguous matrix of the same shape, float32 or 16 bits.
void dequantize(const QuantizedMatrix& matrix, at::Tensor into);

// Selects rows (dimension 0) or columns (1) of a matrix of this shape, slice after slice. Values do not
// change. `block` is the nf4 block size of the result: it must divide 64, and every slice must begin and end
// at multiples of it in the flattened matrix.
QuantizedMatrix select(const QuantizedMatrix& matrix, at::IntArrayRef shape, std::int64_t dimension,
                       at::ArrayRef<Slice> slices, std::int64_t block);

}  // namespace dpo::ops
