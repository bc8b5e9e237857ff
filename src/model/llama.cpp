// Llama, Mistral, Qwen2 and Qwen3: they differ only in biases and in the norms of queries and keys, which the
// tensor table says.
#include "model/layer_parts.h"
#include "model/tensor_parallel.h"

namespace dpo::model {
namespace llama {

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return embed_tokens(w, "model.embed_tokens.weight", context.tokens, config.shape.vocabulary);
}

at::Tensor attention(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                     const Context& context) {
  const auto heads = [&](const char* name) { return split_heads(config, linear(w, name, x)); };
  at::Tensor q = heads("self_attn.q_proj"), k = heads("self_attn.k_proj");
  if (w.find("self_attn.q_norm.weight")) {
    q = head_norm(w, "self_attn.q_norm", q, config.settings.norm_epsilon);
    k = head_norm(w, "self_attn.k_norm", k, config.settings.norm_epsilon);
  }
  const at::Tensor out = context.attend(apply_rotary(config, q, context), apply_rotary(config, k, context),
                                        heads("self_attn.v_proj"));
  return row_parallel_linear(w, "self_attn.o_proj", out.flatten(1));
}

at::Tensor mlp(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x) {
  const at::Tensor gate = activate(linear(w, "mlp.gate_proj", x), config.settings.activation);
  return row_parallel_linear(w, "mlp.down_proj", gate * linear(w, "mlp.up_proj", x));
}

at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const double epsilon = config.settings.norm_epsilon;
  const at::Tensor y = x + attention(config, w, rms_norm(w, "input_layernorm", x, epsilon), context);
  return y + mlp(config, w, rms_norm(w, "post_attention_layernorm", y, epsilon));
}

at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return rms_norm(head, "model.norm", x, config.settings.norm_epsilon);
}

}  // namespace llama

const BlockFunctions kLlama{llama::embed, llama::layer, llama::final_norm};

}  // namespace dpo::model
