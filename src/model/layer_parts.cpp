#include "model/layer_parts.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>

#include "model/tensor_parallel.h"
#include "ops/rotary.h"

namespace dpo::model {

at::Tensor linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x) {
  return linear(x, weights.matrix(name), weights.bias(name));
}

at::Tensor row_parallel_linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x) {
  if (!weights.tensor_group) return linear(weights, name, x);
  const at::Tensor sum = reduce_from_tensor_parallel(weights, linear(x, weights.matrix(name)));
  const at::Tensor bias = weights.bias(name);
  return bias.defined() ? sum + bias : sum;
}

at::Tensor layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      double epsilon) {
  return copy_to_tensor_parallel(
      weights, at::layer_norm(x, {x.size(-1)}, weights(name + ".weight"), weights(name + ".bias"), epsilon));
}

at::Tensor rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    double epsilon) {
  return copy_to_tensor_parallel(weights, at::rms_norm(x, {x.size(-1)}, weights(name + ".weight"), epsilon));
}

at::Tensor head_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, copy_to_tensor_parallel(weights, weights(name + ".weight")), epsilon);
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu: return at::gelu(x);
    case Activation::gelu_tanh: return at::gelu(x, "tanh");
    case Activation::relu: return at::relu(x);
    case Activation::silu: break;
  }
  return at::silu(x);
}

at::Tensor apply_rotary(const ModelConfig& config, const at::Tensor& x, const Context& context) {
  return ops::apply_rotary(x, context.cos, context.sin, config.settings.rotary.interleaved);
}

at::Tensor split_heads(const ModelConfig& config, const at::Tensor& x) {
  return x.unflatten(-1, {-1, config.shape.head_dim});
}

}  // namespace dpo::model
