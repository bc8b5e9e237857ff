#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Multiplies x, [rows, in], by the weight, and adds the bias if it is defined. The weight is [out, in] as in
// nn.Linear, or [in, out] if `transposed`.
at::Tensor matmul(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed);

// Sets out = a b, or adds a b to out. On a GPU `out` may be float32 if a and b have 16 bits.
void matmul_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b);
void add_matmul_to(at::Tensor out, const at::Tensor& a, const at::Tensor& b);

}  // namespace dpo::ops
