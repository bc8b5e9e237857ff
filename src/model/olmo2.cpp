// Implements OLMo 2 and 3, with norms after attention and MLP instead of before.
#include "model/layer_parts.h"
#include "model/tensor_parallel.h"

namespace dpo::model {
namespace olmo2 {

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return embed_tokens(w, "model.embed_tokens.weight", context, config.shape.vocabulary);
}

at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const double epsilon = config.settings.norm_epsilon;
  const at::Tensor attended = wide_normed_attention(config, w, copy_to_tensor_parallel(w, x), context);
  const at::Tensor y = context.needed(x) + output_norm(w, "post_attention_layernorm", attended, epsilon);
  const at::Tensor inner = gated_mlp(config, w, copy_to_tensor_parallel(w, y));
  return y + output_norm(w, "post_feedforward_layernorm", inner, epsilon);
}

at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return rms_norm(head, "model.norm", x, config.settings.norm_epsilon);
}

}  // namespace olmo2

const BlockFunctions kOlmo2{olmo2::embed, olmo2::layer, olmo2::final_norm};

}  // namespace dpo::model
