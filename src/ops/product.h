#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Products of matrices without gradients of their own. Large ones in 16 bits on a GPU are computed with the
// algorithm that was found to be the fastest there (ops/cuda/products.h).

// x, [rows, in], times the weight, [out, in] as in nn.Linear or [in, out] if `transposed`, plus the bias if
// it is defined.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed);

// `out` becomes a b, or out + a b. It may be float32 if a and b have 16 bits, on a GPU.
void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b, bool add = false);

}  // namespace dpo::ops
