#include "model/parts.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>

#include "ops/rotary.h"

namespace dpo::model {

at::Tensor linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x) {
  const at::Tensor* bias = weights.find(name + ".bias");
  return at::linear(x, weights(name + ".weight"), bias ? std::optional(*bias) : std::nullopt);
}

at::Tensor linear_transposed(const BlockWeights& weights, const std::string& name, const at::Tensor& x) {
  return at::addmm(weights(name + ".bias"), x, weights(name + ".weight"));
}

at::Tensor layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      double epsilon) {
  return at::layer_norm(x, {x.size(-1)}, weights(name + ".weight"), weights(name + ".bias"), epsilon);
}

at::Tensor rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weights(name + ".weight"), epsilon);
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

at::Tensor turned(const ModelConfig& config, const at::Tensor& x, const Context& context) {
  return ops::rotate(x, context.cos, context.sin, config.settings.rotary.interleaved);
}

at::Tensor split_heads(const ModelConfig& config, const at::Tensor& x) {
  return x.unflatten(-1, {-1, config.shape.head_dim});
}

}  // namespace dpo::model
