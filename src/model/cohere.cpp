#include <ATen/ops/layer_norm.h>

#include "model/layer_parts.h"
#include "model/tensor_parallel.h"
#include "ops/add.h"

namespace dpo::model {
namespace cohere {

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return embed_tokens(w, "model.embed_tokens.weight", context, config.shape.vocabulary);
}

at::Tensor attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                     const Context& context) {
  if (!w.find("self_attn.q_norm.weight")) return self_attention(config, w, x, context);
  Heads heads = project_heads(config, w, x);
  // Each head has different weights. Tensor-parallel ranks hold those of their heads.
  const auto head_norm = [&](const char* name, const at::Tensor& of) {
    return at::layer_norm(of.to(at::kFloat), {of.size(-1)}, {}, {}, config.settings.norm_epsilon)
        .mul(w(name))
        .to(of.scalar_type());
  };
  heads.q = head_norm("self_attn.q_norm.weight", heads.q);
  heads.k = head_norm("self_attn.k_norm.weight", heads.k);
  return rotary_attention(config, w, heads, context);
}

// Attention and MLP read the same norm of the same input.
at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const Normed in = add_layer_norm(w, "input_layernorm", x, {}, config.settings.norm_epsilon);
  const at::Tensor attended = attention(config, w, in.norm, context);
  return ops::add_three(context.needed(in.x), attended, gated_mlp(config, w, context.needed(in.norm)));
}

// Applies the scale of the logits to the hidden states that they are computed from.
at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return layer_norm(head, "model.norm", x, config.settings.norm_epsilon) * config.settings.logit_multiplier;
}

}  // namespace cohere

const BlockFunctions kCohere{cohere::embed, cohere::layer, cohere::final_norm};

}  // namespace dpo::model
