#include "model/layer_parts.h"
#include "model/tensor_parallel.h"
#include "ops/add.h"

namespace dpo::model {
namespace gptj {

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return embed_tokens(w, "transformer.wte.weight", context, config.shape.vocabulary);
}

at::Tensor attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                     const Context& context) {
  const std::vector<at::Tensor> qkv = linear_each(w, {"attn.q_proj", "attn.k_proj", "attn.v_proj"}, x);
  const at::Tensor out =
      context.attend(apply_rotary(config, split_heads(config, qkv[0]), context),
                     apply_rotary(config, split_heads(config, qkv[1]), context), split_heads(config, qkv[2]));
  return row_parallel_linear(w, "attn.out_proj", out.flatten(1));
}

// Attention and MLP read the same norm of the same input.
at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const Normed in = add_layer_norm(w, "ln_1", x, {}, config.settings.norm_epsilon);
  const at::Tensor inner =
      activated_linear(w, "mlp.fc_in", context.needed(in.norm), config.settings.activation);
  const at::Tensor attended = attention(config, w, in.norm, context);
  return ops::add_three(context.needed(in.x), attended, row_parallel_linear(w, "mlp.fc_out", inner));
}

at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return layer_norm(head, "transformer.ln_f", x, config.settings.norm_epsilon);
}

}  // namespace gptj

const BlockFunctions kGptj{gptj::embed, gptj::layer, gptj::final_norm};

}  // namespace dpo::model
