#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// x, [rows, in], times the weight, [out, in] as in nn.Linear or [in, out] if `transposed`, plus the bias if
// it is defined. With LibTorch's gradients.
at::Tensor plain_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         bool transposed);

// The same to the last bit, without gradients. In 16 bits on a GPU, products of sizes that come up again and
// again are computed with the fastest algorithm for them (ops/cuda/products.h).
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed);

// `out` becomes a b, or out + a b. It may be float32 if a and b have 16 bits, on a GPU.
void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b);
void add_product_to(at::Tensor out, const at::Tensor& a, const at::Tensor& b);

}  // namespace dpo::ops
