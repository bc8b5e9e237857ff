#include <cmath>
#include <optional>

#include "ops/cuda/kernels.h"
#include "ops/cuda/tensors.h"
#include "ops/fused.h"

namespace dpo::ops::fused {
namespace {

using cuda::Launch, cuda::type_of;

bool is_flat_float(const at::Tensor& tensor) {
  return tensor.is_cuda() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

float* floats(at::Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

// The gradient as the kernels take it, if they support its dtype.
std::optional<cuda::Gradient> gradient_of(const at::Tensor& tensor) {
  const auto type = type_of(tensor);
  if (!type || !tensor.is_cuda() || !tensor.is_contiguous()) return std::nullopt;
  return cuda::Gradient{tensor.const_data_ptr(), *type};
}

}  // namespace

bool has_kernels() { return true; }

bool apply_rotary(at::Tensor& out, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  bool interleaved, float direction) {
  const auto type = type_of(x);
  if (!x.is_cuda() || !type || x.stride(2) != 1 || !is_flat_float(cos) || !is_flat_float(sin)) return false;
  cuda::apply_rotary({.in = x.const_data_ptr(),
                      .out = out.mutable_data_ptr(),
                      .type = *type,
                      .tokens = x.size(0),
                      .heads = x.size(1),
                      .head_dim = x.size(2),
                      .token_stride = x.stride(0),
                      .head_stride = x.stride(1),
                      .cos = cos.const_data_ptr<float>(),
                      .sin = sin.const_data_ptr<float>(),
                      .pairs = cos.size(1),
                      .interleaved = interleaved,
                      .direction = direction},
                     Launch(x));
  return true;
}

bool merge(AttentionOutput& one, const AttentionOutput& other) {
  const auto type = type_of(one.out);
  if (!one.out.is_cuda() || !type || one.lse.scalar_type() != at::kFloat ||
      other.lse.scalar_type() != at::kFloat || !one.out.is_contiguous() || !other.out.is_contiguous() ||
      one.lse.stride(1) != 1 || other.lse.stride(1) != 1)
    return false;
  cuda::merge({.out = one.out.mutable_data_ptr(),
               .other = other.out.const_data_ptr(),
               .type = *type,
               .lse = floats(one.lse),
               .other_lse = other.lse.const_data_ptr<float>(),
               .lse_stride = one.lse.stride(0),
               .other_lse_stride = other.lse.stride(0),
               .tokens = one.out.size(0),
               .heads = one.out.size(1),
               .head_dim = one.out.size(2)},
              Launch(one.out));
  return true;
}

bool adam(at::Tensor& weights, const at::Tensor& gradients, at::Tensor& exp_avg, at::Tensor& exp_avg_sq,
          const AdamArguments& n) {
  const auto gradient = gradient_of(gradients);
  if (!gradient || !is_flat_float(weights)) return false;
  const auto step = static_cast<double>(n.step);
  cuda::Adam c;
  c.l2 = static_cast<float>(n.l2);
  c.decay = static_cast<float>(1 - n.lr * n.decoupled);
  c.one_minus_beta1 = static_cast<float>(1 - n.beta1);
  c.beta2 = static_cast<float>(n.beta2);
  c.one_minus_beta2 = static_cast<float>(1 - n.beta2);
  c.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1 - std::pow(n.beta2, step)));
  c.epsilon = static_cast<float>(n.epsilon);
  c.step_size = static_cast<float>(-n.lr / (1 - std::pow(n.beta1, step)));
  cuda::adam(floats(weights), *gradient, floats(exp_avg), floats(exp_avg_sq), weights.numel(), c,
             Launch(weights));
  return true;
}

bool rmsprop(at::Tensor& weights, const at::Tensor& gradients, at::Tensor& square_avg,
             const RmsPropArguments& n) {
  const auto gradient = gradient_of(gradients);
  if (!gradient || !is_flat_float(weights)) return false;
  const cuda::RmsProp c{.l2 = static_cast<float>(n.l2),
                        .alpha = static_cast<float>(n.alpha),
                        .one_minus_alpha = static_cast<float>(1 - n.alpha),
                        .epsilon = static_cast<float>(n.epsilon),
                        .step_size = static_cast<float>(-n.lr)};
  cuda::rmsprop(floats(weights), *gradient, floats(square_avg), weights.numel(), c, Launch(weights));
  return true;
}

}  // namespace dpo::ops::fused
