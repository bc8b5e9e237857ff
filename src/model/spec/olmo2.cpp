#include "model/spec/families.h"

namespace dpo::model {

// Describes OLMo 2 and 3, with norms after attention and MLP, and norms of queries and keys over all heads.
FamilyTable olmo2_table(const ModelShape& s) {
  FamilyTable t = llama_like_table(s);
  t.layer = {whole_vector("post_attention_layernorm.weight", s.hidden),
             whole_vector("post_feedforward_layernorm.weight", s.hidden)};
  add_attention(t, s);
  add_gated_mlp(t, s);
  add_biases(t, s);
  t.layer.push_back(split_vector("self_attn.q_norm.weight", s.query_width()));
  t.layer.push_back(split_vector("self_attn.k_norm.weight", s.kv_width()));
  return t;
}

}  // namespace dpo::model
