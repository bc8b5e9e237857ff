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

std::vector<at::Tensor> linear_each(const BlockWeights& weights, const std::vector<std::string>& names,
                                    const at::Tensor& x) {
  std::vector<Matrix> matrices;
  std::vector<at::Tensor> biases;
  for (const std::string& name : names) {
    matrices.push_back(weights.matrix(name));
    biases.push_back(weights.bias(name));
  }
  return linear_each(x, matrices, biases);
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

at::Tensor output_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                       double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weights(name + ".weight"), epsilon);
}

at::Tensor wide_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     std::int64_t width, double epsilon) {
  if (!weights.tensor_group) return output_norm(weights, name, x, epsilon);
  const at::Tensor wide = x.to(at::kFloat);
  // Every rank's heads use the sum, so its gradient is summed over ranks too.
  const at::Tensor squares = copy_to_tensor_parallel(
      weights, reduce_from_tensor_parallel(weights, wide.square().sum(-1, /*keepdim=*/true)));
  const at::Tensor scale = (squares / static_cast<double>(width) + epsilon).rsqrt();
  return (wide * scale * weights(name + ".weight")).to(x.scalar_type());
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

Heads project_heads(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x) {
  if (!weights.find("self_attn.qkv_proj.weight")) {
    const std::vector<at::Tensor> qkv =
        linear_each(weights, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, x);
    return {split_heads(config, qkv[0]), split_heads(config, qkv[1]), split_heads(config, qkv[2])};
  }
  const at::Tensor qkv = split_heads(config, linear(weights, "self_attn.qkv_proj", x));
  const std::int64_t all = config.shape.heads + 2 * config.shape.kv_heads;
  const std::int64_t q = qkv.size(1) * config.shape.heads / all;  // on this rank
  const std::int64_t kv = (qkv.size(1) - q) / 2;
  return {qkv.narrow(1, 0, q), qkv.narrow(1, q, kv), qkv.narrow(1, q + kv, kv)};
}

at::Tensor rotary_attention(const ModelConfig& config, const BlockWeights& weights, const Heads& heads,
                            const Context& context) {
  const at::Tensor out =
      context.attend(apply_rotary(config, heads.q, context), apply_rotary(config, heads.k, context), heads.v);
  return row_parallel_linear(weights, "self_attn.o_proj", out.flatten(1));
}

at::Tensor head_normed_attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                                 const Context& context) {
  Heads heads = project_heads(config, w, x);
  if (w.find("self_attn.q_norm.weight")) {
    heads.q = head_norm(w, "self_attn.q_norm", heads.q, config.settings.norm_epsilon);
    heads.k = head_norm(w, "self_attn.k_norm", heads.k, config.settings.norm_epsilon);
  }
  return rotary_attention(config, w, heads, context);
}

at::Tensor wide_normed_attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                                 const Context& context) {
  Heads heads = project_heads(config, w, x);
  const auto norm = [&](const char* name, const at::Tensor& of, std::int64_t width) {
    return split_heads(config, wide_norm(w, name, of.flatten(1), width, config.settings.norm_epsilon));
  };
  heads.q = norm("self_attn.q_norm", heads.q, config.shape.query_width());
  heads.k = norm("self_attn.k_norm", heads.k, config.shape.kv_width());
  return rotary_attention(config, w, heads, context);
}

at::Tensor gated_mlp(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x) {
  at::Tensor gate, up;
  if (weights.find("mlp.gate_up_proj.weight")) {
    const std::vector<at::Tensor> both = linear(weights, "mlp.gate_up_proj", x).chunk(2, -1);
    gate = both[0];
    up = both[1];
  } else {
    const std::vector<at::Tensor> both = linear_each(weights, {"mlp.gate_proj", "mlp.up_proj"}, x);
    gate = both[0];
    up = both[1];
  }
  return row_parallel_linear(weights, "mlp.down_proj", activate(gate, config.settings.activation) * up);
}

at::Tensor apply_rotary(const ModelConfig& config, const at::Tensor& x, const Context& context) {
  if (!config.is_rotated(context.layer)) return x;
  const bool own = config.settings.window_rotary && config.is_windowed(context.layer);
  const Angles& angles = own ? context.window_angles : context.angles;
  return ops::apply_rotary(x, angles.cos, angles.sin, config.settings.rotary.interleaved);
}

at::Tensor split_heads(const ModelConfig& config, const at::Tensor& x) {
  return x.unflatten(-1, {-1, config.shape.head_dim});
}

}  // namespace dpo::model
