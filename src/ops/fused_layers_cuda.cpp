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

// Undefined, or on the same device, of the same dtype and contiguous.
bool matches(const at::Tensor& tensor, const at::Tensor& x) {
  return !tensor.defined() ||
         (tensor.device() == x.device() && tensor.scalar_type() == x.scalar_type() && tensor.is_contiguous());
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
  n.parts = cuda::norm_parts(n.rows, n.width);
  const at::Tensor partial = floats_like(x, {n.parts, sums, n.width});
  const at::Tensor grad_weights = at::empty({sums, n.width}, x.options());
  NormGradients result{at::empty_like(x), {}};
  n.grad_x = result.x.mutable_data_ptr();
  n.partial = partial.mutable_data_ptr<float>();
  n.grad_weights = grad_weights.mutable_data_ptr();
  cuda::norm_backward(n, cuda::Launch(x));
  for (std::int64_t k = 0; k < sums; k += 2)
    result.weights.push_back({grad_weights.select(0, k), grad_weights.select(0, k + 1)});
  return result;
}

}  // namespace dpo::ops::fused
