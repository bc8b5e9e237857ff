// Products by cuBLASLt (ops/cuda/products.h), as in fused.h.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace dpo::ops::fused {

// Whether the dtypes and the device are such that product() may compute it.
bool supports_product(const at::Tensor& a, const at::Tensor& b);

// out = a b, and `bias` added to every row if it is defined. `usual` computes the same with LibTorch, into
// `out` too; the results have the same bits.
bool product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
             const std::function<void()>& usual);

}  // namespace dpo::ops::fused
