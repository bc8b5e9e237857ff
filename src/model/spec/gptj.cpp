#include "model/spec/families.h"

namespace dpo::model {

// In GPT-J one norm feeds both attention and MLP. The attention has no biases, the head has one.
FamilyTable gptj_table(const ModelShape& s) {
  const std::int64_t h = s.hidden;
  FamilyTable t;
  t.embedding = {embedding_tensor("transformer.wte.weight", s)};
  t.layer_prefix = "transformer.h.";
  t.layer = {
      whole_vector("ln_1.weight", h),
      whole_vector("ln_1.bias", h),
      split_outputs("attn.q_proj.weight", h, h),
      split_outputs("attn.k_proj.weight", h, h),
      split_outputs("attn.v_proj.weight", h, h),
      split_inputs("attn.out_proj.weight", h, h),
      split_outputs("mlp.fc_in.weight", s.ffn, h),
      split_vector("mlp.fc_in.bias", s.ffn),
      split_inputs("mlp.fc_out.weight", h, s.ffn),
      whole_vector("mlp.fc_out.bias", h),
  };
  t.head = {whole_vector("transformer.ln_f.weight", h), whole_vector("transformer.ln_f.bias", h)};
  t.head_name = "lm_head.weight";
  if (!s.tied_embeddings) t.head.push_back(head_tensor(t.head_name, s));
  t.head.push_back(split_vector("lm_head.bias", s.vocabulary));
  t.base_prefix = "transformer.";
  t.buffers = {".attn.bias", ".attn.masked_bias", ".attn.embed_positions"};
  return t;
}

}  // namespace dpo::model
