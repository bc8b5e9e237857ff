#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "ops/cuda/layers.h"
#include "ops/cuda/tensors.h"
#include "ops/fused_layers.h"

namespace dpo::ops::fused {
namespace {

const void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }

at::Tensor floats_like(const at::Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options().dtype(at::kFloat));
}

// True if a tensor is undefined, or contiguous with the device and the dtype of x.
bool matches(const at::Tensor& tensor, const at::Tensor& x) {
  return !tensor.defined() ||
         (tensor.device() == x.device() && tensor.scalar_type() == x.scalar_type() && tensor.is_contiguous());
}

cuda::Gated gated_call(const GateUp& in, Activation activation) {
  cuda::Gated g;
  g.type = *cuda::type_of(in.gate);
  g.activation = activation;
  g.rows = in.gate.size(0);
  g.width = in.gate.size(1);
  g.stride = in.gate.stride(0);
  g.gate = in.gate.const_data_ptr();
  g.up = in.up.const_data_ptr();
  return g;
}

cuda::BiasActivation bias_call(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  cuda::BiasActivation a;
  a.type = *cuda::type_of(x);
  a.activation = activation;
  a.rows = x.size(0);
  a.width = x.size(1);
  a.x = x.const_data_ptr();
  a.bias = data_of(bias);
  a.parts = cuda::bias_parts(a.rows, a.width);
  return a;
}

cuda::HeadPart part_of(const at::Tensor& from, const at::Tensor& to) {
  return {from.const_data_ptr(), to.mutable_data_ptr(), static_cast<int>(from.size(1)),
          from.stride(0),        from.stride(1),        to.stride(0),
          to.stride(1)};
}

cuda::HeadRotation rotation(const Heads& from, const RotaryAngles& angles, const Heads& to, float direction) {
  cuda::HeadRotation r;
  r.type = *cuda::type_of(from.q);
  r.tokens = from.q.size(0);
  r.head_dim = from.q.size(2);
  r.parts[0] = part_of(from.q, to.q);
  r.parts[1] = part_of(from.k, to.k);
  r.parts[2] = part_of(from.v, to.v);
  r.direction = direction;
  if (!angles.cos.defined()) return r;
  r.cos = angles.cos.const_data_ptr<float>();
  r.sin = angles.sin.const_data_ptr<float>();
  r.pairs = angles.cos.size(1);
  r.interleaved = angles.interleaved;
  return r;
}

}  // namespace

bool supports_norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms) {
  return x.is_cuda() && cuda::type_of(x) && cuda::supports_norm(x.size(-1)) && matches(x, x) &&
         matches(residual, x) && std::ranges::all_of(norms, [&x](const NormWeights& norm) {
           return matches(norm.weight, x) && matches(norm.bias, x);
         });
}

NormResult norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms,
                const NormOptions& options) {
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  NormResult result{residual.defined() ? at::empty_like(x) : x, {}, {}, floats_like(x, {rows})};
  if (options.is_layer_norm) result.mean = floats_like(x, {rows});
  cuda::Norm n;
  n.type = *cuda::type_of(x);
  n.rows = rows;
  n.width = width;
  n.is_layer_norm = options.is_layer_norm;
  n.norms = static_cast<int>(norms.size());
  n.epsilon = static_cast<float>(options.epsilon);
  n.weight_offset = static_cast<float>(options.weight_offset);
  n.x = x.const_data_ptr();
  n.residual = data_of(residual);
  if (residual.defined()) n.sum = result.sum.mutable_data_ptr();
  n.mean = options.is_layer_norm ? result.mean.mutable_data_ptr<float>() : nullptr;
  n.rstd = result.rstd.mutable_data_ptr<float>();
  for (std::size_t k = 0; k < norms.size(); ++k) {
    n.weights[k] = norms[k].weight.const_data_ptr();
    n.biases[k] = data_of(norms[k].bias);
    n.out[k] = result.out.emplace_back(at::empty_like(x)).mutable_data_ptr();
  }
  cuda::norm(n, cuda::Launch(x));
  return result;
}

NormGradients norm_backward(const NormResult& forward, const std::vector<NormWeights>& norms,
                            const NormOptions& options, const at::Tensor& grad_sum,
                            const std::vector<at::Tensor>& grads) {
  const at::Tensor& x = forward.sum;
  const auto dense = [](const at::Tensor& grad) { return grad.defined() ? grad.contiguous() : grad; };
  const at::Tensor dense_sum = dense(grad_sum);
  std::vector<at::Tensor> dense_grads;
  const auto sums = 2 * static_cast<std::int64_t>(norms.size());
  cuda::NormGradient n;
  n.type = *cuda::type_of(x);
  n.width = x.size(-1);
  n.rows = x.numel() / n.width;
  n.is_layer_norm = options.is_layer_norm;
  n.norms = static_cast<int>(norms.size());
  n.weight_offset = static_cast<float>(options.weight_offset);
  n.x = x.const_data_ptr();
  n.mean = options.is_layer_norm ? forward.mean.const_data_ptr<float>() : nullptr;
  n.rstd = forward.rstd.const_data_ptr<float>();
  for (std::size_t k = 0; k < norms.size(); ++k) {
    n.weights[k] = norms[k].weight.const_data_ptr();
    n.grads[k] = data_of(dense_grads.emplace_back(dense(grads[k])));
  }
  n.grad_sum = data_of(dense_sum);
  NormGradients result{at::empty_like(x), {}};
  n.grad_x = result.x.mutable_data_ptr();
  n.parts = cuda::norm_parts(n);
  const at::Tensor partial = floats_like(x, {n.parts, sums, n.width});
  const at::Tensor grad_weights = at::empty({sums, n.width}, x.options());
  n.partial = partial.mutable_data_ptr<float>();
  n.grad_weights = grad_weights.mutable_data_ptr();
  cuda::norm_backward(n, cuda::Launch(x));
  for (std::int64_t k = 0; k < sums; k += 2)
    result.weights.push_back({grad_weights.select(0, k), grad_weights.select(0, k + 1)});
  return result;
}

bool supports_gated(const GateUp& in) {
  return in.gate.is_cuda() && cuda::type_of(in.gate) && in.gate.dim() == 2 && in.gate.stride(1) == 1 &&
         in.up.strides() == in.gate.strides() && in.up.scalar_type() == in.gate.scalar_type();
}

at::Tensor gated(const GateUp& in, Activation activation) {
  const at::Tensor out = at::empty(in.gate.sizes(), in.gate.options());
  cuda::Gated g = gated_call(in, activation);
  g.out = out.mutable_data_ptr();
  cuda::gated(g, cuda::Launch(out));
  return out;
}

void gated_backward(const GateUp& in, Activation activation, const at::Tensor& grad, const GateUp& grad_in) {
  const at::Tensor dense = grad.contiguous();
  cuda::Gated g = gated_call(in, activation);
  g.grad_out = dense.const_data_ptr();
  g.grad_gate = grad_in.gate.mutable_data_ptr();
  g.grad_up = grad_in.up.mutable_data_ptr();
  cuda::gated_backward(g, cuda::Launch(dense));
}

bool supports_bias_activation(const at::Tensor& x, const at::Tensor& bias) {
  return x.is_cuda() && cuda::type_of(x) && x.dim() == 2 && matches(x, x) && matches(bias, x);
}

at::Tensor activate_with_bias(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  const at::Tensor out = at::empty_like(x);
  cuda::BiasActivation a = bias_call(x, bias, activation);
  a.out = out.mutable_data_ptr();
  cuda::bias_activation(a, cuda::Launch(x));
  return out;
}

BiasGradients activate_with_bias_backward(const at::Tensor& x, const at::Tensor& bias, Activation activation,
                                          const at::Tensor& grad) {
  const at::Tensor dense = grad.contiguous();
  cuda::BiasActivation a = bias_call(x, bias, activation);
  const at::Tensor partial = floats_like(x, {a.parts, a.width});
  BiasGradients result{at::empty_like(x), bias.defined() ? at::empty_like(bias) : at::Tensor()};
  a.grad_out = dense.const_data_ptr();
  a.grad_x = result.x.mutable_data_ptr();
  a.partial = partial.mutable_data_ptr<float>();
  if (bias.defined()) a.grad_bias = result.bias.mutable_data_ptr();
  cuda::bias_activation_backward(a, cuda::Launch(x));
  return result;
}

bool supports_column_sums(const at::Tensor& matrix, at::ScalarType dtype) {
  return matrix.is_cuda() && matrix.dim() == 2 && matrix.stride(1) == 1 && cuda::type_of(matrix) &&
         cuda::type_of(dtype);
}

at::Tensor column_sums(const at::Tensor& matrix, at::ScalarType dtype) {
  cuda::ColumnSums s;
  s.type = *cuda::type_of(matrix);
  s.sum_type = *cuda::type_of(dtype);
  s.rows = matrix.size(0);
  s.columns = matrix.size(1);
  s.stride = matrix.stride(0);
  s.matrix = matrix.const_data_ptr();
  s.parts = cuda::column_sum_parts(s.rows, s.columns);
  const at::Tensor partial = floats_like(matrix, {s.parts, s.columns});
  const at::Tensor sums = at::empty({s.columns}, matrix.options().dtype(dtype));
  s.partial = partial.mutable_data_ptr<float>();
  s.sums = sums.mutable_data_ptr();
  cuda::column_sums(s, cuda::Launch(matrix));
  return sums;
}

bool supports_add_three(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  return a.is_cuda() && cuda::type_of(a) && matches(a, a) && matches(b, a) && matches(c, a) &&
         b.sizes() == a.sizes() && c.sizes() == a.sizes();
}

at::Tensor add_three(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  const at::Tensor out = at::empty_like(a);
  cuda::AddThree s;
  s.type = *cuda::type_of(a);
  s.count = a.numel();
  s.a = a.const_data_ptr();
  s.b = b.const_data_ptr();
  s.c = c.const_data_ptr();
  s.out = out.mutable_data_ptr();
  cuda::add_three(s, cuda::Launch(a));
  return out;
}

bool supports_rotation(const Heads& heads, const RotaryAngles& angles) {
  const auto is_table = [](const at::Tensor& table) {
    return !table.defined() || (table.scalar_type() == at::kFloat && table.is_contiguous());
  };
  return heads.q.is_cuda() && cuda::type_of(heads.q) && heads.q.stride(2) == 1 && heads.q.size(2) % 2 == 0 &&
         is_table(angles.cos) && is_table(angles.sin);
}

void rotate_heads(const Heads& heads, const RotaryAngles& angles) {
  cuda::rotate_heads(rotation(heads, angles, heads, 1), cuda::Launch(heads.q));
}

void rotate_heads_back(const Heads& from, const RotaryAngles& angles, const Heads& to) {
  cuda::rotate_heads(rotation(from, angles, to, -1), cuda::Launch(from.q));
}

}  // namespace dpo::ops::fused
