#include "model/spec/families.h"

namespace dpo::model {

// GPT-2 stores its matrices as [in, out], so the split dimensions are the other way round.
FamilyTable gpt2_table(const ModelShape& s) {
  const auto outputs = [](std::string name, std::int64_t in, std::int64_t out) {
    TensorInfo tensor{std::move(name), {in, out}, 1, true};
    tensor.transposed = true;
    return tensor;
  };
  const auto sections = [&s](TensorInfo tensor) {  // queries, then keys, then values
    tensor.sections = {s.hidden, s.hidden, s.hidden};
    return tensor;
  };
  const auto inputs = [](std::string name, std::int64_t in, std::int64_t out) {
    TensorInfo tensor{std::move(name), {in, out}, 0, true, Init::residual};
    tensor.transposed = true;
    return tensor;
  };
  const std::int64_t h = s.hidden;
  FamilyTable t;
  t.embedding = {embedding_tensor("transformer.wte.weight", s),
                 {"transformer.wpe.weight", {s.context, h}, std::nullopt, false}};
  t.layer_prefix = "transformer.h.";
  t.layer = {
      whole_vector("ln_1.weight", h),
      whole_vector("ln_1.bias", h),
      sections(outputs("attn.c_attn.weight", h, 3 * h)),
      sections(split_vector("attn.c_attn.bias", 3 * h)),
      inputs("attn.c_proj.weight", h, h),
      whole_vector("attn.c_proj.bias", h),
      whole_vector("ln_2.weight", h),
      whole_vector("ln_2.bias", h),
      outputs("mlp.c_fc.weight", h, s.ffn),
      split_vector("mlp.c_fc.bias", s.ffn),
      inputs("mlp.c_proj.weight", s.ffn, h),
      whole_vector("mlp.c_proj.bias", h),
  };
  t.head = {whole_vector("transformer.ln_f.weight", h), whole_vector("transformer.ln_f.bias", h)};
  t.head_name = "lm_head.weight";
  if (!s.tied_embeddings) t.head.push_back(head_tensor(t.head_name, s));
  t.base_prefix = "transformer.";
  t.buffers = {".attn.bias", ".attn.masked_bias"};
  return t;
}

}  // namespace dpo::model
