#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Returns |one - other| / |other|, by Euclidean norms in float64. NaN stays NaN, so it fails every tolerance.
inline double relative_error(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor exact = other.detach().to(at::kDouble);
  const double size = exact.norm().item<double>();
  return (one.detach().to(at::kDouble) - exact).norm().item<double>() / (size > 0 ? size : 1);
}

inline bool has_gpu() { return at::globalContext().hasCUDA(); }

}  // namespace dpo::ops
