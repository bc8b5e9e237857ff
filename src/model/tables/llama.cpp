#include "model/tables/families.h"

namespace dpo::model {

// Llama, Mistral, Qwen2 and Qwen3 differ in biases and in the norms of queries and keys alone.
FamilyTable llama_table(const ModelShape& s) {
  const std::int64_t h = s.hidden;
  const std::int64_t q = s.query_width();
  const std::int64_t kv = s.kv_width();
  FamilyTable t;
  t.embedding = {embedding_tensor("model.embed_tokens.weight", s)};
  t.layer_prefix = "model.layers.";
  t.layer = {
      whole_vector("input_layernorm.weight", h),       split_outputs("self_attn.q_proj.weight", q, h),
      split_outputs("self_attn.k_proj.weight", kv, h), split_outputs("self_attn.v_proj.weight", kv, h),
      split_inputs("self_attn.o_proj.weight", h, q),   whole_vector("post_attention_layernorm.weight", h),
      split_outputs("mlp.gate_proj.weight", s.ffn, h), split_outputs("mlp.up_proj.weight", s.ffn, h),
      split_inputs("mlp.down_proj.weight", h, s.ffn),
  };
  const bool qwen2 = s.family == Family::qwen2;
  if (s.attention_bias || qwen2) {
    t.layer.push_back(split_vector("self_attn.q_proj.bias", q));
    t.layer.push_back(split_vector("self_attn.k_proj.bias", kv));
    t.layer.push_back(split_vector("self_attn.v_proj.bias", kv));
  }
  if (s.attention_bias && !qwen2) t.layer.push_back(whole_vector("self_attn.o_proj.bias", h));
  if (s.mlp_bias) {
    t.layer.push_back(split_vector("mlp.gate_proj.bias", s.ffn));
    t.layer.push_back(split_vector("mlp.up_proj.bias", s.ffn));
    t.layer.push_back(whole_vector("mlp.down_proj.bias", h));
  }
  if (s.family == Family::qwen3) {
    t.layer.push_back(whole_vector("self_attn.q_norm.weight", s.head_dim));
    t.layer.push_back(whole_vector("self_attn.k_norm.weight", s.head_dim));
  }
  t.head = {whole_vector("model.norm.weight", h)};
  t.head_name = "lm_head.weight";
  if (!s.tied_embeddings) t.head.push_back(head_tensor(t.head_name, s));
  t.base_prefix = "model.";
  t.buffers = {".rotary_emb.inv_freq"};
  return t;
}

}  // namespace dpo::model
