#include <ATen/ops/embedding.h>

#include "model/layer_parts.h"
#include "model/tensor_parallel.h"

namespace dpo::model {
namespace gpt2 {

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return embed_tokens(w, "transformer.wte.weight", context, config.shape.vocabulary) +
         at::embedding(w("transformer.wpe.weight"), context.positions);
}

at::Tensor attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                     const Context& context) {
  const std::vector<at::Tensor> qkv = linear(w, "attn.c_attn", x).chunk(3, -1);
  const at::Tensor out =
      context.attend(split_heads(config, qkv[0]), split_heads(config, qkv[1]), split_heads(config, qkv[2]));
  return row_parallel_linear(w, "attn.c_proj", out.flatten(1));
}

at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const double epsilon = config.settings.norm_epsilon;
  const Normed in = add_layer_norm(w, "ln_1", x, {}, epsilon);
  const Normed y =
      add_layer_norm(w, "ln_2", context.needed(in.x), attention(config, w, in.norm, context), epsilon);
  const at::Tensor inner = activated_linear(w, "mlp.c_fc", y.norm, config.settings.activation);
  return y.x + row_parallel_linear(w, "mlp.c_proj", inner);
}

at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return layer_norm(head, "transformer.ln_f", x, config.settings.norm_epsilon);
}

}  // namespace gpt2

const BlockFunctions kGpt2{gpt2::embed, gpt2::layer, gpt2::final_norm};

}  // namespace dpo::model
