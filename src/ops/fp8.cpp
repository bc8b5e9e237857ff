#include "ops/fp8.h"

#include <optional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/mm.h>

#include "base/number_formats.h"
#include "ops/fused.h"
#include "ops/quantized_formats.h"

namespace dpo::ops {
namespace {

// Multiplies by the reciprocal of the scale, because the GPU kernel does too: it is faster than dividing.
Fp8Matrix quantized_rows(const at::Tensor& matrix) {
  const at::Tensor rows = matrix.to(at::kFloat);
  const at::Tensor scales =
      rows.abs().amax(1, /*keepdim=*/true).mul_(1 / kLargestE4m3).clamp_min_(kSmallestFp8Scale);
  return {(rows * scales.reciprocal()).to(at::kFloat8_e4m3fn).contiguous(), scales};
}

}  // namespace

Fp8Matrix fp8_rows(const at::Tensor& matrix) {
  const at::NoGradGuard no_grad;
  return fused::supports_fp8_rows(matrix) ? fused::fp8_rows(matrix) : quantized_rows(matrix);
}

Fp8Matrix fp8_columns(const at::Tensor& matrix) {
  const at::NoGradGuard no_grad;
  return fused::supports_fp8_columns(matrix) ? fused::fp8_columns(matrix) : quantized_rows(matrix.t());
}

bool fits_fp8(const at::Tensor& weight) {
  return weight.dim() == 2 && weight.size(0) % kFp8Multiple == 0 && weight.size(1) % kFp8Multiple == 0;
}

at::Tensor fp8_matmul(const Fp8Matrix& a, const Fp8Matrix& b, const at::Tensor& bias, at::ScalarType dtype,
                      bool fast) {
  const at::NoGradGuard no_grad;
  if (a.codes.is_cuda())
    return at::_scaled_mm(a.codes, b.codes.t(), a.scales, b.scales.t(),
                          bias.defined() ? std::optional(bias) : std::nullopt, /*scale_result=*/std::nullopt,
                          dtype, fast);
  at::Tensor product = at::mm(a.codes.to(at::kFloat), b.codes.to(at::kFloat).t());
  product.mul_(a.scales).mul_(b.scales.t());
  if (bias.defined()) product.add_(bias);
  return product.to(dtype);
}

}  // namespace dpo::ops
