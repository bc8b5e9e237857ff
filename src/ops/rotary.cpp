#include "ops/rotary.h"

#include <cstring>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/fused.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Positions of a pair: the first dimension of pair i is i * step, and the second is `distance` after it.
struct Pairs {
  std::int64_t step, distance;
};

Pairs pairs_of(std::int64_t count, bool interleaved) { return interleaved ? Pairs{2, 1} : Pairs{1, count}; }

template <class Scalar>
void rotate_head(const Scalar* in, Scalar* out, const float* cos, const float* sin, float direction,
                 std::int64_t count, Pairs pairs, std::int64_t head_dim) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i * pairs.step, second = first + pairs.distance;
    const auto a = static_cast<float>(in[first]), b = static_cast<float>(in[second]);
    const float s = direction * sin[i];
    out[first] = static_cast<Scalar>(a * cos[i] - b * s);
    out[second] = static_cast<Scalar>(b * cos[i] + a * s);
  }
  std::memcpy(out + 2 * count, in + 2 * count,
              sizeof(Scalar) * static_cast<std::size_t>(head_dim - 2 * count));
}

at::Tensor rotate_cpu(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved,
                      float direction) {
  const at::Tensor in = x.stride(2) == 1 ? x : x.contiguous();
  const at::Tensor out = at::empty(in.sizes(), in.options());
  const std::int64_t heads = in.size(1), head_dim = in.size(2), count = cos.size(1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, in.scalar_type(), "rotary", [&] {
    const scalar_t* from = in.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    const float *cosines = cos.const_data_ptr<float>(), *sines = sin.const_data_ptr<float>();
    at::parallel_for(0, in.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        for (std::int64_t h = 0; h < heads; ++h)
          rotate_head(from + t * in.stride(0) + h * in.stride(1), to + (t * heads + h) * head_dim,
                      cosines + t * count, sines + t * count, direction, count, pairs_of(count, interleaved),
                      head_dim);
    });
  });
  return out;
}

at::Tensor rotate_on_device(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            bool interleaved, float direction) {
  if (fused::supports_rotary(x, cos, sin)) return fused::apply_rotary(x, cos, sin, interleaved, direction);
  at::Tensor out = at::empty(x.sizes(), x.options());
  const std::int64_t count = cos.size(1);
  const auto half = [&](const at::Tensor& tensor, std::int64_t which) {
    const at::Tensor pairs = tensor.narrow(-1, 0, 2 * count);
    return interleaved ? pairs.unflatten(-1, {count, 2}).select(-1, which)
                       : pairs.narrow(-1, which * count, count);
  };
  const at::Tensor c = cos.unsqueeze(1), s = (sin * direction).unsqueeze(1);
  half(out, 0).copy_(half(x, 0) * c - half(x, 1) * s);
  half(out, 1).copy_(half(x, 1) * c + half(x, 0) * s);
  if (const std::int64_t rest = x.size(2) - 2 * count; rest > 0)
    out.narrow(-1, 2 * count, rest).copy_(x.narrow(-1, 2 * count, rest));
  return out;
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved,
                   float direction) {
  return x.is_cpu() ? rotate_cpu(x, cos, sin, interleaved, direction)
                    : rotate_on_device(x, cos, sin, interleaved, direction);
}

struct Rotation : torch::autograd::Function<Rotation> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin, bool interleaved) {
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    return rotated(x, cos, sin, interleaved, 1);
  }

  // Rotates the gradient back.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const bool interleaved = ctx->saved_data["interleaved"].toBool();
    return {rotated(grads[0], saved[0], saved[1], interleaved, -1), Variable(), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor apply_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved) {
  return Rotation::apply(x, cos, sin, interleaved);
}

}  // namespace dpo::ops
