#include "ops/matmul.h"

#include <optional>

#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

namespace dpo::ops {

at::Tensor matmul(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed) {
  if (!transposed) return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  return bias.defined() ? at::addmm(bias, x, weight) : at::mm(x, weight);
}

void matmul_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  out.scalar_type() == a.scalar_type() ? at::mm_out(out, a, b) : at::mm_out(out, a, b, out.scalar_type());
}

void add_matmul_to(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  out.scalar_type() == a.scalar_type() ? at::addmm_out(out, out, a, b)
                                       : at::addmm_out(out, out, a, b, out.scalar_type());
}

}  // namespace dpo::ops
