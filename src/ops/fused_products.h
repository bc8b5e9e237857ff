// Products by cuBLASLt (ops/cuda/products.h), as in fused.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops::fused {

// Whether the dtypes and the device are such that product() may compute it.
bool supports_product(const at::Tensor& a, const at::Tensor& b);

// out = a b, or out + a b, and `bias` added to every row if it is defined.
bool product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias, bool add);

}  // namespace dpo::ops::fused
