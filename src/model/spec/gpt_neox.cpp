#include "model/spec/families.h"

namespace dpo::model {

FamilyTable gpt_neox_table(const ModelShape& s) {
  const std::int64_t h = s.hidden;
  FamilyTable t;
  t.embedding = {embedding_tensor("gpt_neox.embed_in.weight", s)};
  t.layer_prefix = "gpt_neox.layers.";
  t.layer = {
      whole_vector("input_layernorm.weight", h),
      whole_vector("input_layernorm.bias", h),
      whole_vector("post_attention_layernorm.weight", h),
      whole_vector("post_attention_layernorm.bias", h),
      split_outputs("attention.query_key_value.weight", 3 * h, h),
      split_inputs("attention.dense.weight", h, h),
      split_outputs("mlp.dense_h_to_4h.weight", s.ffn, h),
      split_vector("mlp.dense_h_to_4h.bias", s.ffn),
      split_inputs("mlp.dense_4h_to_h.weight", h, s.ffn),
      whole_vector("mlp.dense_4h_to_h.bias", h),
  };
  if (s.attention_bias) {
    t.layer.push_back(split_vector("attention.query_key_value.bias", 3 * h));
    t.layer.push_back(whole_vector("attention.dense.bias", h));
  }
  t.head = {whole_vector("gpt_neox.final_layer_norm.weight", h),
            whole_vector("gpt_neox.final_layer_norm.bias", h)};
  t.head_name = "embed_out.weight";
  if (!s.tied_embeddings) t.head.push_back(head_tensor(t.head_name, s));
  t.old_names = {{"lm_head.weight", t.head_name}};  // its name in memory in transformers 5
  t.base_prefix = "gpt_neox.";
  t.buffers = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"};
  return t;
}

}  // namespace dpo::model
