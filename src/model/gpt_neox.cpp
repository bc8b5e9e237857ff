#include "model/layer_parts.h"
#include "model/tensor_parallel.h"
#include "ops/add.h"

namespace dpo::model {
namespace gpt_neox {

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return embed_tokens(w, "gpt_neox.embed_in.weight", context, config.shape.vocabulary);
}

// The fused matrix has query, key and value of a head next to each other.
at::Tensor attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                     const Context& context) {
  const Heads heads =
      rotated_heads(config, linear(w, "attention.query_key_value", x), /*by_head=*/true, context);
  const at::Tensor out = context.attend(heads.q, heads.k, heads.v);
  return row_parallel_linear(w, "attention.dense", out.flatten(1));
}

at::Tensor mlp(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x) {
  return row_parallel_linear(w, "mlp.dense_4h_to_h",
                             activated_linear(w, "mlp.dense_h_to_4h", x, config.settings.activation));
}

at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const double epsilon = config.settings.norm_epsilon;
  if (config.shape.parallel_residual) {
    const TwoNorms in = two_layer_norms(w, "input_layernorm", "post_attention_layernorm", x, epsilon);
    const at::Tensor attended = attention(config, w, in.first, context);
    return ops::add_three(context.needed(in.x), attended, mlp(config, w, context.needed(in.second)));
  }
  const Normed in = add_layer_norm(w, "input_layernorm", x, {}, epsilon);
  const Normed y = add_layer_norm(w, "post_attention_layernorm", context.needed(in.x),
                                  attention(config, w, in.norm, context), epsilon);
  return y.x + mlp(config, w, y.norm);
}

at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return layer_norm(head, "gpt_neox.final_layer_norm", x, config.settings.norm_epsilon);
}

}  // namespace gpt_neox

const BlockFunctions kGptNeox{gpt_neox::embed, gpt_neox::layer, gpt_neox::final_norm};

}  // namespace dpo::model
