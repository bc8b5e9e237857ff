#include "model/spec/families.h"

namespace dpo::model {
namespace {

// Describes one tensor with the rows of several that Llama has separately.
TensorInfo fused(std::string name, std::vector<std::int64_t> sections, std::int64_t in) {
  std::int64_t out = 0;
  for (const std::int64_t section : sections) out += section;
  TensorInfo tensor = split_outputs(std::move(name), out, in);
  tensor.sections = std::move(sections);
  return tensor;
}

void add_fused_attention(FamilyTable& t, const ModelShape& s) {
  t.layer.push_back(
      fused("self_attn.qkv_proj.weight", {s.query_width(), s.kv_width(), s.kv_width()}, s.hidden));
  t.layer.push_back(split_inputs("self_attn.o_proj.weight", s.hidden, s.query_width()));
}

void add_fused_mlp(FamilyTable& t, const ModelShape& s) {
  t.layer.push_back(fused("mlp.gate_up_proj.weight", {s.ffn, s.ffn}, s.hidden));
  t.layer.push_back(split_inputs("mlp.down_proj.weight", s.hidden, s.ffn));
}

}  // namespace

FamilyTable llama_like_table(const ModelShape& s) {
  FamilyTable t;
  t.embedding = {embedding_tensor("model.embed_tokens.weight", s)};
  t.layer_prefix = "model.layers.";
  t.head = {whole_vector("model.norm.weight", s.hidden)};
  t.head_name = "lm_head.weight";
  if (!s.tied_embeddings) t.head.push_back(head_tensor(t.head_name, s));
  t.base_prefix = "model.";
  t.buffers = {".rotary_emb.inv_freq"};
  return t;
}

void add_attention(FamilyTable& t, const ModelShape& s) {
  const std::int64_t h = s.hidden, q = s.query_width(), kv = s.kv_width();
  add_joined(t, "self_attn.qkv_proj.weight",
             {split_outputs("self_attn.q_proj.weight", q, h), split_outputs("self_attn.k_proj.weight", kv, h),
              split_outputs("self_attn.v_proj.weight", kv, h)});
  t.layer.push_back(split_inputs("self_attn.o_proj.weight", h, q));
}

void add_gated_mlp(FamilyTable& t, const ModelShape& s) {
  add_joined(t, "mlp.gate_up_proj.weight",
             {split_outputs("mlp.gate_proj.weight", s.ffn, s.hidden),
              split_outputs("mlp.up_proj.weight", s.ffn, s.hidden)});
  t.layer.push_back(split_inputs("mlp.down_proj.weight", s.hidden, s.ffn));
}

void add_biases(FamilyTable& t, const ModelShape& s) {
  const bool qwen2 = s.family == Family::qwen2;
  if (s.attention_bias || qwen2) {
    add_joined(t, "self_attn.qkv_proj.bias",
               {split_vector("self_attn.q_proj.bias", s.query_width()),
                split_vector("self_attn.k_proj.bias", s.kv_width()),
                split_vector("self_attn.v_proj.bias", s.kv_width())});
  }
  if (s.attention_bias && !qwen2) t.layer.push_back(whole_vector("self_attn.o_proj.bias", s.hidden));
  if (!s.mlp_bias) return;
  add_joined(t, "mlp.gate_up_proj.bias",
             {split_vector("mlp.gate_proj.bias", s.ffn), split_vector("mlp.up_proj.bias", s.ffn)});
  t.layer.push_back(whole_vector("mlp.down_proj.bias", s.hidden));
}

// Describes Llama, Mistral, Qwen2, Qwen3, SmolLM3 and Granite, which differ only in biases and in the norms
// of queries and keys, and Phi-3, which has fewer, larger matrices.
FamilyTable llama_table(const ModelShape& s) {
  FamilyTable t = llama_like_table(s);
  t.layer = {whole_vector("input_layernorm.weight", s.hidden)};
  s.family == Family::phi3 ? add_fused_attention(t, s) : add_attention(t, s);
  t.layer.push_back(whole_vector("post_attention_layernorm.weight", s.hidden));
  s.family == Family::phi3 ? add_fused_mlp(t, s) : add_gated_mlp(t, s);
  add_biases(t, s);
  if (s.family == Family::qwen3) {
    t.layer.push_back(whole_vector("self_attn.q_norm.weight", s.head_dim));
    t.layer.push_back(whole_vector("self_attn.k_norm.weight", s.head_dim));
  }
  return t;
}

}  // namespace dpo::model
