#include "ops/matmul.h"

#include <optional>

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include "ops/fused_matmul.h"

namespace dpo::ops {

at::Tensor plain_matmul(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        bool transposed) {
  if (!transposed) return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  return bias.defined() ? at::addmm(bias, x, weight) : at::mm(x, weight);
}

at::Tensor matmul(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed) {
  const at::Tensor b = transposed ? weight : weight.t();
  if (!fused::supports_matmul(x, b)) return plain_matmul(x, weight, bias, transposed);
  at::Tensor out = at::empty({x.size(0), b.size(1)}, x.options());
  const auto usual = [&] { bias.defined() ? at::addmm_out(out, bias, x, b) : at::mm_out(out, x, b); };
  if (!fused::matmul(out, x, b, bias, usual)) usual();
  return out;
}

void matmul_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  const auto usual = [&] {
    out.scalar_type() == a.scalar_type() ? at::mm_out(out, a, b) : at::mm_out(out, a, b, out.scalar_type());
  };
  if (!fused::supports_matmul(a, b) || !fused::matmul(out, a, b, {}, usual)) usual();
}

void add_matmul_to(at::Tensor out, const at::Tensor& a, const at::Tensor& b) {
  out.scalar_type() == a.scalar_type() ? at::addmm_out(out, out, a, b)
                                       : at::addmm_out(out, out, a, b, out.scalar_type());
}

}  // namespace dpo::ops
