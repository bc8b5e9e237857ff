// Declares matmuls by cuBLASLt (ops/cuda/matmuls.h). As in fused.h, false means that nothing was done.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace dpo::ops::fused {

// True if matmul() may support the dtypes and the device.
bool supports_matmul(const at::Tensor& a, const at::Tensor& b);

// Computes out = a b, and adds `bias` to every row if it is defined. `usual` computes the same with LibTorch,
// also into `out`. Both give the same bits.
bool matmul(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
            const std::function<void()>& usual);

}  // namespace dpo::ops::fused
