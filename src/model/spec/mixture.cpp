#include "model/spec/families.h"

namespace dpo::model {
namespace {

// Adds one matrix of every expert. Files have them separately; layers see them stacked. Tensor-parallel ranks
// split each expert as they split an MLP, so that all have the same work wherever the router sends tokens.
void add_experts(FamilyTable& t, const ModelShape& s, const std::string& stack, const std::string& matrix,
                 const TensorInfo& one) {
  const std::string part = s.family == Family::mixtral ? "block_sparse_moe.experts." : "mlp.experts.";
  for (std::int64_t i = 0; i < s.experts; ++i) {
    TensorInfo tensor = one;
    tensor.name = part + std::to_string(i) + "." + matrix + ".weight";
    tensor.stack = stack;
    tensor.token_share = static_cast<double>(s.experts_per_token) / static_cast<double>(s.experts);
    t.layer.push_back(std::move(tensor));
  }
}

void add_mixture(FamilyTable& t, const ModelShape& s) {
  const bool mixtral = s.family == Family::mixtral;
  const char* router = mixtral ? "block_sparse_moe.gate.weight" : "mlp.gate.weight";
  t.layer.push_back({router, {s.experts, s.hidden}, std::nullopt, true});
  const TensorInfo inner = split_outputs("", s.ffn, s.hidden), outer = split_inputs("", s.hidden, s.ffn);
  add_experts(t, s, "experts.gate_proj", mixtral ? "w1" : "gate_proj", inner);
  add_experts(t, s, "experts.up_proj", mixtral ? "w3" : "up_proj", inner);
  add_experts(t, s, "experts.down_proj", mixtral ? "w2" : "down_proj", outer);
}

}  // namespace

// Describes Llama's layers with experts instead of the MLP. Mixtral has no norms of queries and keys, Qwen3
// MoE has one for each head, OLMoE one over all heads.
FamilyTable mixture_table(const ModelShape& s) {
  FamilyTable t = llama_like_table(s);
  t.layer = {whole_vector("input_layernorm.weight", s.hidden)};
  add_attention(t, s);
  t.layer.push_back(whole_vector("post_attention_layernorm.weight", s.hidden));
  add_mixture(t, s);
  add_biases(t, s);
  if (s.family == Family::qwen3_moe) {
    t.layer.push_back(whole_vector("self_attn.q_norm.weight", s.head_dim));
    t.layer.push_back(whole_vector("self_attn.k_norm.weight", s.head_dim));
  } else if (s.family == Family::olmoe) {
    t.layer.push_back(split_vector("self_attn.q_norm.weight", s.query_width()));
    t.layer.push_back(split_vector("self_attn.k_norm.weight", s.kv_width()));
  }
  return t;
}

}  // namespace dpo::model
