#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// A matrix in e4m3, floats of 8 bits (4 of exponent, 3 of mantissa): row i is codes[i] * scales[i].
struct Fp8Matrix {
  at::Tensor codes;   // float8_e4m3fn [rows, columns], contiguous
  at::Tensor scales;  // float32 [rows, 1]: a row's largest magnitude / 448, the largest e4m3
};

// Of a matrix [rows, columns], float32 or 16 bits. A row depends on itself only. If it has a NaN or an
// infinity, products with it are NaN.
Fp8Matrix fp8_rows(const at::Tensor& matrix);

// The same of its transpose: a scale for each column.
Fp8Matrix fp8_columns(const at::Tensor& matrix);

// Whether products with this weight can be computed: a GPU needs sizes that 16 divides.
bool fits_fp8(const at::Tensor& weight);

// a b^T, plus the bias if it is defined, in `dtype`. Sums are in float32; `fast` lets a GPU keep about 14
// bits of a sum while it adds (Hopper), as others do in forward passes.
at::Tensor fp8_product(const Fp8Matrix& a, const Fp8Matrix& b, const at::Tensor& bias, at::ScalarType dtype,
                       bool fast);

}  // namespace dpo::ops
