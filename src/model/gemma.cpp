// Implements Gemma 2 and 3, with norms before and after attention and MLP that multiply by 1 + weight.
#include <ATen/ops/scalar_tensor.h>

#include "model/layer_parts.h"
#include "model/tensor_parallel.h"
#include "ops/norms.h"

namespace dpo::model {
namespace gemma {

ops::NormOptions norm_options(double epsilon) {
  return {/*is_layer_norm=*/false, epsilon, /*weight_offset=*/1};
}

at::Tensor norm(const at::Tensor& weight, const at::Tensor& x, double epsilon) {
  return ops::add_norm(x, {}, {{weight, {}}}, norm_options(epsilon)).out[0];
}

Normed input_norm(const ModelConfig& config, const BlockWeights& w, const char* name, const at::Tensor& x,
                  const at::Tensor& residual = {}) {
  const auto [sum, norms] =
      ops::add_norm(x, residual, {{w(name), {}}}, norm_options(config.settings.norm_epsilon));
  return {sum, copy_to_tensor_parallel(w, norms[0])};
}

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  const at::Tensor x = embed_tokens(w, "model.embed_tokens.weight", context, config.shape.vocabulary);
  // The model was trained with the multiplier rounded to the weights' dtype.
  return x * at::scalar_tensor(config.settings.embedding_multiplier, x.options());
}

at::Tensor attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                     const Context& context) {
  if (!w.find("self_attn.q_norm.weight")) return self_attention(config, w, x, context);
  Heads heads = project_heads(config, w, x);
  const auto head_norm = [&](const char* name, const at::Tensor& of) {
    return norm(copy_to_tensor_parallel(w, w(name)), of, config.settings.norm_epsilon);
  };
  heads.q = head_norm("self_attn.q_norm.weight", heads.q);
  heads.k = head_norm("self_attn.k_norm.weight", heads.k);
  return rotary_attention(config, w, heads, context);
}

at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const double epsilon = config.settings.norm_epsilon;
  const Normed in = input_norm(config, w, "input_layernorm.weight", x);
  const at::Tensor attended =
      norm(w("post_attention_layernorm.weight"), attention(config, w, in.norm, context), epsilon);
  const Normed y = input_norm(config, w, "pre_feedforward_layernorm.weight", context.needed(in.x), attended);
  const at::Tensor inner = gated_mlp(config, w, y.norm);
  return y.x + norm(w("post_feedforward_layernorm.weight"), inner, epsilon);
}

at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return input_norm(config, head, "model.norm.weight", x).norm;
}

}  // namespace gemma

const BlockFunctions kGemma{gemma::embed, gemma::layer, gemma::final_norm};

}  // namespace dpo::model
