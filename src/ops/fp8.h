#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// A matrix in e4m3, 8-bit floats with 4 exponent and 3 mantissa bits. Row i is codes[i] * scales[i].
struct Fp8Matrix {
  at::Tensor codes;   // float8_e4m3fn [rows, columns], contiguous
  at::Tensor scales;  // float32 [rows, 1]: a row's largest magnitude / 448, the largest e4m3
};

// Quantizes a matrix, [rows, columns] in float32 or 16 bits, with one scale per row. Rows do not affect each
// other. A NaN or an infinity in a row makes matmuls with that row NaN.
Fp8Matrix fp8_rows(const at::Tensor& matrix);

// Quantizes the transpose: one scale per column of the matrix.
Fp8Matrix fp8_columns(const at::Tensor& matrix);

// True if fp8 matmuls support this weight. GPUs need sizes that are multiples of 16.
bool fits_fp8(const at::Tensor& weight);

// Returns a b^T in `dtype`, plus the bias if it is defined. Sums are in float32. With `fast` a Hopper GPU may
// accumulate with about 14 bits, as other libraries do in forward passes.
at::Tensor fp8_matmul(const Fp8Matrix& a, const Fp8Matrix& b, const at::Tensor& bias, at::ScalarType dtype,
                      bool fast);

}  // namespace dpo::ops
