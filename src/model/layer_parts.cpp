#include "model/layer_parts.h"

#include <ATen/ops/rms_norm.h>

#include "model/tensor_parallel.h"
#include "ops/activation.h"
#include "ops/norms.h"
#include "ops/rotary.h"

namespace dpo::model {
namespace {

ops::Activation operation_of(Activation activation) {
  switch (activation) {
    case Activation::gelu: return ops::Activation::gelu;
    case Activation::gelu_tanh: return ops::Activation::gelu_tanh;
    case Activation::relu: return ops::Activation::relu;
    case Activation::silu: break;
  }
  return ops::Activation::silu;
}

// Returns the rotary angles of the context's layer, undefined if it has no rotary embedding.
ops::RotaryAngles rotation_of(const ModelConfig& config, const Context& context) {
  if (!config.is_rotated(context.layer)) return {};
  const bool own = config.settings.window_rotary && config.is_windowed(context.layer);
  const Angles& angles = own ? context.window_angles : context.angles;
  return {angles.cos, angles.sin, config.settings.rotary.interleaved};
}

// Returns the layout of a fused matmul's output `qkv`, with the heads of this rank.
ops::QkvLayout layout_of(const ModelConfig& config, const at::Tensor& qkv, bool by_head) {
  const ModelShape& shape = config.shape;
  const std::int64_t all = shape.heads + 2 * shape.kv_heads;
  const std::int64_t ranks = all * shape.head_dim / qkv.size(-1);
  return {shape.heads / ranks, shape.kv_heads / ranks, shape.head_dim, by_head};
}

at::Tensor attention_output(const BlockWeights& weights, const Heads& heads, const Context& context) {
  const at::Tensor out = context.attend(heads.q, heads.k, heads.v);
  return row_parallel_linear(weights, "self_attn.o_proj", out.flatten(1));
}

}  // namespace

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
  return add_layer_norm(weights, name, x, {}, epsilon).norm;
}

at::Tensor rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    double epsilon) {
  return add_rms_norm(weights, name, x, {}, epsilon).norm;
}

Normed add_layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      const at::Tensor& residual, double epsilon) {
  const auto [sum, norms] = ops::add_norm(x, residual, {{weights(name + ".weight"), weights.bias(name)}},
                                          {/*is_layer_norm=*/true, epsilon});
  return {sum, copy_to_tensor_parallel(weights, norms[0])};
}

Normed add_rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    const at::Tensor& residual, double epsilon) {
  const auto [sum, norms] =
      ops::add_norm(x, residual, {{weights(name + ".weight"), {}}}, {/*is_layer_norm=*/false, epsilon});
  return {sum, copy_to_tensor_parallel(weights, norms[0])};
}

TwoNorms two_layer_norms(const BlockWeights& weights, const std::string& first, const std::string& second,
                         const at::Tensor& x, double epsilon) {
  const auto weights_of = [&weights](const std::string& name) {
    return ops::NormWeights{weights(name + ".weight"), weights.bias(name)};
  };
  const auto [same, norms] =
      ops::add_norm(x, {}, {weights_of(first), weights_of(second)}, {/*is_layer_norm=*/true, epsilon});
  return {same, copy_to_tensor_parallel(weights, norms[0]), copy_to_tensor_parallel(weights, norms[1])};
}

at::Tensor head_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, copy_to_tensor_parallel(weights, weights(name + ".weight")), epsilon);
}

at::Tensor output_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                       double epsilon) {
  return ops::add_norm(x, {}, {{weights(name + ".weight"), {}}}, {/*is_layer_norm=*/false, epsilon}).out[0];
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

at::Tensor activated_linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                            Activation activation) {
  const ops::Activation operation = operation_of(activation);
  if (!ops::fuses_bias_activation(x)) return ops::activate(linear(weights, name, x), operation);
  return ops::bias_activation(linear(x, weights.matrix(name)), weights.bias(name), operation);
}

Heads project_heads(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x) {
  if (!weights.find("self_attn.qkv_proj.weight")) {
    const std::vector<at::Tensor> qkv =
        linear_each(weights, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, x);
    return {split_heads(config, qkv[0]), split_heads(config, qkv[1]), split_heads(config, qkv[2])};
  }
  const at::Tensor qkv = linear(weights, "self_attn.qkv_proj", x);
  return ops::rotated_heads(qkv, layout_of(config, qkv, /*by_head=*/false), {});
}

at::Tensor rotary_attention(const ModelConfig& config, const BlockWeights& weights, const Heads& heads,
                            const Context& context) {
  return attention_output(
      weights, {apply_rotary(config, heads.q, context), apply_rotary(config, heads.k, context), heads.v},
      context);
}

at::Tensor self_attention(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                          const Context& context) {
  if (!weights.find("self_attn.qkv_proj.weight"))
    return rotary_attention(config, weights, project_heads(config, weights, x), context);
  const at::Tensor qkv = linear(weights, "self_attn.qkv_proj", x);
  return attention_output(weights, rotated_heads(config, qkv, /*by_head=*/false, context), context);
}

at::Tensor head_normed_attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                                 const Context& context) {
  if (!w.find("self_attn.q_norm.weight")) return self_attention(config, w, x, context);
  Heads heads = project_heads(config, w, x);
  heads.q = head_norm(w, "self_attn.q_norm", heads.q, config.settings.norm_epsilon);
  heads.k = head_norm(w, "self_attn.k_norm", heads.k, config.settings.norm_epsilon);
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

at::Tensor gated_activation(const ModelConfig& config, const at::Tensor& gate, const at::Tensor& up) {
  return ops::gated_activation(gate, up, operation_of(config.settings.activation));
}

at::Tensor gated_mlp(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x) {
  at::Tensor inner;
  if (weights.find("mlp.gate_up_proj.weight")) {
    inner = ops::gated_activation(linear(weights, "mlp.gate_up_proj", x),
                                  operation_of(config.settings.activation));
  } else {
    const std::vector<at::Tensor> both = linear_each(weights, {"mlp.gate_proj", "mlp.up_proj"}, x);
    inner = gated_activation(config, both[0], both[1]);
  }
  return row_parallel_linear(weights, "mlp.down_proj", inner);
}

at::Tensor apply_rotary(const ModelConfig& config, const at::Tensor& x, const Context& context) {
  const ops::RotaryAngles angles = rotation_of(config, context);
  return angles.cos.defined() ? ops::apply_rotary(x, angles.cos, angles.sin, angles.interleaved) : x;
}

Heads rotated_heads(const ModelConfig& config, const at::Tensor& qkv, bool by_head, const Context& context) {
  return ops::rotated_heads(qkv, layout_of(config, qkv, by_head), rotation_of(config, context));
}

at::Tensor split_heads(const ModelConfig& config, const at::Tensor& x) {
  return x.unflatten(-1, {-1, config.shape.head_dim});
}

}  // namespace dpo::model
