// Implements Llama, Mistral, Qwen2, Qwen3, Phi-3, SmolLM3 and Granite. They differ only in settings, and in
// biases, fused matrices and norms of queries and keys, which the tensor table describes.
#include "model/layer_parts.h"
#include "model/tensor_parallel.h"

namespace dpo::model {
namespace llama {

at::Tensor times(const at::Tensor& x, double multiplier) { return multiplier == 1 ? x : x * multiplier; }

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return times(embed_tokens(w, "model.embed_tokens.weight", context, config.shape.vocabulary),
               config.settings.embedding_multiplier);
}

at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const double epsilon = config.settings.norm_epsilon, multiplier = config.settings.residual_multiplier;
  const Normed in = add_rms_norm(w, "input_layernorm", x, {}, epsilon);
  const at::Tensor attended = times(head_normed_attention(config, w, in.norm, context), multiplier);
  const Normed y = add_rms_norm(w, "post_attention_layernorm", context.needed(in.x), attended, epsilon);
  return y.x + times(gated_mlp(config, w, y.norm), multiplier);
}

// Applies the multiplier of the logits to the hidden states that they are computed from.
at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return times(rms_norm(head, "model.norm", x, config.settings.norm_epsilon),
               config.settings.logit_multiplier);
}

}  // namespace llama

const BlockFunctions kLlama{llama::embed, llama::layer, llama::final_norm};

}  // namespace dpo::model
