#include "model/spec/families.h"

namespace dpo::model {

// Norms of Gemma multiply by 1 + weight, so a new model's weights are zeros.
FamilyTable gemma_table(const ModelShape& s) {
  const auto norm = [](std::string name, std::int64_t size) {
    TensorInfo tensor = whole_vector(std::move(name), size);
    tensor.init = Init::zeros;
    return tensor;
  };
  FamilyTable t = llama_like_table(s);
  t.head.front().init = Init::zeros;
  for (const char* name : {"input_layernorm.weight", "post_attention_layernorm.weight",
                           "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"})
    t.layer.push_back(norm(name, s.hidden));
  add_attention(t, s);
  add_gated_mlp(t, s);
  add_biases(t, s);
  if (s.family == Family::gemma3) {
    t.layer.push_back(norm("self_attn.q_norm.weight", s.head_dim));
    t.layer.push_back(norm("self_attn.k_norm.weight", s.head_dim));
    // Names in files of the model for images and text.
    t.old_prefixes = {{"language_model.model.", "model."},
                      {"language_model.lm_head.", "lm_head."},
                      {"model.language_model.", "model."}};
    t.other_parts = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                     "model.multi_modal_projector."};
  }
  return t;
}

}  // namespace dpo::model
