#include "model/spec/shape.h"

#include "model/spec/config_object.h"
#include "model/spec/config_reader.h"

namespace dpo::model {
namespace {

using nlohmann::json;

ModelShape read_gpt2_like(const ConfigReader& in, Family family, bool tied) {
  ModelShape s;
  s.family = family;
  s.layers = in.size("n_layer");
  s.hidden = in.size("n_embd");
  s.ffn = in.optional_size("n_inner").value_or(4 * s.hidden);
  s.heads = in.size("n_head");
  s.kv_heads = s.heads;
  s.head_dim = s.hidden / s.heads;
  s.vocabulary = in.size("vocab_size");
  s.context = in.size("n_positions");
  s.tied_embeddings = in.flag("tie_word_embeddings", tied);
  s.mlp_bias = true;
  s.attention_bias = family == Family::gpt2;
  s.parallel_residual = family == Family::gptj;
  return s;
}

ModelShape read_modern(const ConfigReader& in, Family family) {
  ModelShape s;
  s.family = family;
  s.layers = in.size("num_hidden_layers");
  s.hidden = in.size("hidden_size");
  s.ffn = in.size("intermediate_size");
  s.heads = in.size("num_attention_heads");
  s.vocabulary = in.size("vocab_size");
  s.context = in.size("max_position_embeddings");
  s.tied_embeddings = in.flag("tie_word_embeddings", false);
  if (family == Family::gpt_neox) {
    s.kv_heads = s.heads;
    s.head_dim = s.hidden / s.heads;
    s.attention_bias = in.flag("attention_bias", true);
    s.mlp_bias = true;
    s.parallel_residual = in.flag("use_parallel_residual", true);
  } else {
    s.kv_heads = in.optional_size("num_key_value_heads").value_or(s.heads);
    constexpr std::int64_t kQwen3HeadDim = 128;  // if its configuration leaves it out
    s.head_dim =
        in.optional_size("head_dim").value_or(family == Family::qwen3 ? kQwen3HeadDim : s.hidden / s.heads);
    const bool may_have_biases = family != Family::phi3 && family != Family::mixtral;
    s.attention_bias = may_have_biases && in.flag("attention_bias", false);
    s.mlp_bias = may_have_biases && info_of(family).layers == LayerKind::llama && in.flag("mlp_bias", false);
    s.parallel_residual = family == Family::cohere;
    s.query_key_norm = family == Family::cohere && in.flag("use_qk_norm", false);
  }
  return s;
}

// Reads the experts. Every layer must have them, as in all models of these families that are in use.
void read_experts(const ConfigReader& in, ModelShape& s) {
  const auto local = in.optional_size("num_local_experts");  // transformers writes one key or the other
  s.experts = local ? *local : in.size("num_experts");
  s.experts_per_token = in.size("num_experts_per_tok");
  if (s.family == Family::qwen3_moe) s.ffn = in.size("moe_intermediate_size");
  if (s.experts_per_token > s.experts)
    in.fail(fmt::format("'num_experts_per_tok' is {}, but there are only {} experts", s.experts_per_token,
                        s.experts));
  // The tensor table grows with the number of experts.
  constexpr std::int64_t kMostExperts = 1 << 18;
  if (s.layers * s.experts > kMostExperts)
    in.fail(fmt::format("{} layers of {} experts are more than the {} experts that are supported", s.layers,
                        s.experts, kMostExperts));
}

void check_heads(const ModelShape& s, const ConfigReader& in) {
  if (s.heads % s.kv_heads != 0)
    in.fail(fmt::format("{} attention heads cannot share {} key/value heads evenly", s.heads, s.kv_heads));
  const bool derived = s.head_dim == s.hidden / s.heads;
  if (derived && s.hidden % s.heads != 0)
    in.fail(fmt::format("a hidden size of {} cannot be split over {} heads", s.hidden, s.heads));
}

}  // namespace

ModelShape parse_shape(std::string_view config_json, const std::string& origin) {
  const json object = parse_config_object(config_json, origin);
  const ConfigReader in(object, origin);
  const Family family = family_of(object, origin);
  ModelShape shape;
  switch (info_of(family).layers) {
    case LayerKind::gpt2: shape = read_gpt2_like(in, family, /*tied=*/true); break;
    case LayerKind::gptj: shape = read_gpt2_like(in, family, /*tied=*/false); break;
    case LayerKind::gpt_neox:
    case LayerKind::llama:
    case LayerKind::gemma:
    case LayerKind::olmo2:
    case LayerKind::cohere:
    case LayerKind::mixture: shape = read_modern(in, family); break;
  }
  check_heads(shape, in);
  // The tensor table grows with the number of layers, and no real model has so many.
  constexpr std::int64_t kMostLayers = 4096;
  if (shape.layers > kMostLayers)
    in.fail(fmt::format("{} layers are more than the {} that are supported", shape.layers, kMostLayers));
  if (shape.layer_kind() == LayerKind::mixture) read_experts(in, shape);
  return shape;
}

std::vector<Family> all_families() {
  std::vector<Family> families;
  for (int i = 0; info_of(static_cast<Family>(i)).model_type != nullptr; ++i)
    families.push_back(static_cast<Family>(i));
  return families;
}

}  // namespace dpo::model
