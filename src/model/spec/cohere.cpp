#include "model/spec/families.h"

namespace dpo::model {

// In Cohere one norm feeds both attention and MLP, and norms have no biases.
FamilyTable cohere_table(const ModelShape& s) {
  FamilyTable t = llama_like_table(s);
  t.layer = {whole_vector("input_layernorm.weight", s.hidden)};
  add_attention(t, s);
  add_gated_mlp(t, s);
  add_biases(t, s);
  if (s.query_key_norm) {
    t.layer.push_back({"self_attn.q_norm.weight", {s.heads, s.head_dim}, 0, false, Init::ones});
    t.layer.push_back({"self_attn.k_norm.weight", {s.kv_heads, s.head_dim}, 0, false, Init::ones});
  }
  return t;
}

}  // namespace dpo::model
