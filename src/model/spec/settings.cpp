#include "model/spec/settings.h"

#include <algorithm>
#include <cmath>

#include "model/spec/config_object.h"
#include "model/spec/config_reader.h"

namespace dpo::model {
namespace {

using nlohmann::json;

// Keys of config.json, and transformers' defaults of them.
struct Keys {
  const char *epsilon, *activation, *default_activation;
  double default_epsilon;
};

Keys keys_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::gpt2:
    case LayerKind::gptj: return {"layer_norm_epsilon", "activation_function", "gelu_new", 1e-5};
    case LayerKind::gpt_neox: return {"layer_norm_eps", "hidden_act", "gelu", 1e-5};
    case LayerKind::cohere: return {"layer_norm_eps", "hidden_act", "silu", 1e-5};
    case LayerKind::gemma: return {"rms_norm_eps", "hidden_activation", "gelu_pytorch_tanh", 1e-6};
    case LayerKind::llama:
    case LayerKind::olmo2:
    case LayerKind::mixture: break;
  }
  return {"rms_norm_eps", "hidden_act", "silu", 1e-6};
}

Activation read_activation(const ConfigReader& in, const Keys& keys) {
  const char* key = keys.activation;
  const std::string name = in.text(key, keys.default_activation);
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  in.fail(
      fmt::format("'{}' is '{}', which is not supported (supported: gelu, gelu_new, gelu_fast, "
                  "gelu_pytorch_tanh, relu, silu, swish)",
                  key, name));
}

// True if a layer attends within the window, for a config.json that does not list the kinds of layers.
bool is_windowed_layer(const ConfigReader& in, const Settings& settings, Family family, std::int64_t layer) {
  switch (family) {
    case Family::mistral:
    case Family::phi3:
    case Family::mixtral:
    case Family::qwen3_moe: return true;
    case Family::qwen2:
    case Family::qwen3: return static_cast<double>(layer) >= in.number("max_window_layers", 28);
    case Family::gemma2: return layer % 2 == 0;
    case Family::gemma3:
    case Family::olmo3: return (layer + 1) % in.size("sliding_window_pattern") != 0;
    case Family::smollm3: return settings.unrotated[static_cast<std::size_t>(layer)];
    case Family::gpt2:
    case Family::gpt_neox:
    case Family::gptj:
    case Family::llama:
    case Family::olmo2:
    case Family::granite:
    case Family::cohere:
    case Family::olmoe: break;
  }
  return false;
}

bool uses_window(const ConfigReader& in, Family family) {
  using enum Family;
  const bool can_be_off = family == qwen2 || family == qwen3 || family == qwen3_moe || family == smollm3;
  return !can_be_off || in.flag("use_sliding_window", false);
}

// Returns "layer_types" in families whose layers differ, else null.
const json* layer_types(const ConfigReader& in, const ModelShape& shape) {
  using enum Family;
  const Family family = shape.family;
  const bool has_types = family == qwen2 || family == qwen3 || family == gemma2 || family == gemma3 ||
                         family == olmo3 || family == smollm3;
  const json* types = in.find("layer_types");
  if (!types || !has_types) return nullptr;
  if (!types->is_array() || static_cast<std::int64_t>(types->size()) < shape.layers)
    in.fail(fmt::format("'layer_types' is not a list with a kind for each of the {} layers", shape.layers));
  for (const json& type : *types)
    if (type != "full_attention" && type != "sliding_attention")
      in.fail(
          "'layer_types' has a kind of layer that is not supported (supported: full_attention, "
          "sliding_attention)");
  return types;
}

void read_windows(const ConfigReader& in, ModelShape& shape, Settings& settings) {
  const json* types = layer_types(in, shape);
  std::vector<bool> windowed(static_cast<std::size_t>(shape.layers));
  bool any = false;
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    windowed[i] = types ? (*types)[i] == "sliding_attention"
                        : is_windowed_layer(in, settings, shape.family, static_cast<std::int64_t>(i));
    any = any || windowed[i];
  }
  if (!any || !uses_window(in, shape.family)) return;
  const auto window = in.optional_size("sliding_window");
  if (!window && !settings.window_rotary) return;
  settings.windowed = std::move(windowed);  // also decides which of two rotary embeddings a layer has
  shape.window = window.value_or(0);
}

// Reads "no_rope_layers" of SmolLM3, which is 1 for a layer that has rotary embeddings.
void read_unrotated(const ConfigReader& in, const ModelShape& shape, Settings& settings) {
  if (shape.family != Family::smollm3) return;
  const json* list = in.find("no_rope_layers");
  if (list && (!list->is_array() || static_cast<std::int64_t>(list->size()) < shape.layers))
    in.fail(
        fmt::format("'no_rope_layers' is not a list with a number for each of the {} layers", shape.layers));
  const std::int64_t interval = list ? 1 : in.size("no_rope_layer_interval");
  settings.unrotated.resize(static_cast<std::size_t>(shape.layers));
  for (std::size_t i = 0; i < settings.unrotated.size(); ++i)
    settings.unrotated[i] = list ? (*list)[i] == 0 : (static_cast<std::int64_t>(i) + 1) % interval == 0;
}

// Returns the factor of attention scores before the softmax.
double read_attention_scale(const ConfigReader& in, const ModelShape& shape) {
  const double usual = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  if (shape.family == Family::gpt2) return in.flag("scale_attn_weights", true) ? usual : 1;
  if (shape.family == Family::granite) return in.number("attention_multiplier", 1);
  if (shape.layer_kind() != LayerKind::gemma) return usual;
  const double scalar = in.number("query_pre_attn_scalar", 0);
  if (scalar <= 0) in.fail("'query_pre_attn_scalar' is missing or 0");
  return 1 / std::sqrt(scalar);
}

// Reads caps and multipliers that only some families have.
void read_factors(const ConfigReader& in, const ModelShape& shape, Settings& settings) {
  settings.attention_scale = read_attention_scale(in, shape);
  if (shape.family == Family::gpt2)
    settings.inverse_layer_scale = in.flag("scale_attn_by_inverse_layer_idx", false);
  if (shape.layer_kind() == LayerKind::gemma) {
    settings.embedding_multiplier = std::sqrt(static_cast<double>(shape.hidden));
    settings.logit_cap = in.number("final_logit_softcapping", 0);
  }
  if (shape.family == Family::gemma2) settings.attention_cap = in.number("attn_logit_softcapping", 0);
  if (shape.family == Family::cohere) settings.logit_multiplier = in.number("logit_scale", 1);
  if (shape.family != Family::granite) return;
  settings.embedding_multiplier = in.number("embedding_multiplier", 1);
  settings.residual_multiplier = in.number("residual_multiplier", 1);
  const double divisor = in.number("logits_scaling", 1);
  if (divisor <= 0) in.fail("'logits_scaling' is 0, expected a number above 0");
  settings.logit_multiplier = 1 / divisor;
}

void refuse_unsupported_experts(const ConfigReader& in) {
  const json* dense = in.find("mlp_only_layers");
  if (in.optional_size("decoder_sparse_step").value_or(1) != 1 || (dense && !dense->empty()))
    in.fail("layers without experts ('decoder_sparse_step', 'mlp_only_layers') are not supported");
  if (in.find("clip_qkv")) in.fail("'clip_qkv' is not supported");
}

void refuse_unsupported(const ConfigReader& in, LayerKind kind) {
  if (kind == LayerKind::mixture) refuse_unsupported_experts(in);
  if (kind == LayerKind::gpt2 && in.flag("add_cross_attention", false))
    in.fail("'add_cross_attention' is not supported");
  if (kind == LayerKind::gemma && in.flag("use_bidirectional_attention", false))
    in.fail("'use_bidirectional_attention' is not supported");
}

// Returns the padding row of the embedding. GPT-2, GPT-NeoX and GPT-J have none. A negative id counts from
// the end, as in Python. An id beyond the vocabulary belongs to a tokenizer that was changed later.
std::optional<std::int64_t> read_padding_row(const ConfigReader& in, const ModelShape& shape) {
  const json* value = in.find("pad_token_id");
  const LayerKind kind = shape.layer_kind();
  const bool has_row = kind != LayerKind::gpt2 && kind != LayerKind::gpt_neox && kind != LayerKind::gptj;
  if (!has_row || !value || !value->is_number_integer()) return std::nullopt;
  const auto id = value->get<std::int64_t>();
  if (id < -shape.vocabulary || id >= shape.vocabulary) return std::nullopt;
  return id < 0 ? id + shape.vocabulary : id;
}

// Extends the context to what YaRN's factor allows, because the key for the context often keeps its old
// value.
void extend_context(ModelShape& shape, const Rotary& rotary) {
  if (rotary.scaling != Rotary::Scaling::yarn) return;
  constexpr double kLongest = 1 << 24;
  const double stretched = rotary.factor * static_cast<double>(rotary.original_context);
  shape.context = std::max(shape.context, static_cast<std::int64_t>(std::min(stretched, kLongest)));
}

// Notes that dropout is ignored. Preference training compares likelihoods, to which dropout would add noise.
void note_dropout(const ConfigReader& in, std::vector<std::string>& notes) {
  std::string found;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout",
                          "router_jitter_noise"})
    if (const json* value = in.find(key); value && value->is_number() && value->get<double>() != 0)
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", key, value->dump());
  if (!found.empty()) notes.push_back(fmt::format("{}: dropout is ignored ({})", in.origin(), found));
}

}  // namespace

ModelConfig parse_model_config(std::string_view config_json, const std::string& origin) {
  ModelConfig config{parse_shape(config_json, origin), {}};
  const json object = parse_config_object(config_json, origin);
  const ConfigReader in(object, origin);
  Settings& settings = config.settings;
  const LayerKind kind = config.shape.layer_kind();
  const Keys keys = keys_of(kind);
  refuse_unsupported(in, kind);
  settings.norm_epsilon = in.number(keys.epsilon, keys.default_epsilon);
  settings.activation = read_activation(in, keys);
  settings.rotary = read_rotary(in, config.shape);
  if (has_two_rotaries(config.shape.family)) settings.window_rotary = read_window_rotary(in, config.shape);
  read_unrotated(in, config.shape, settings);
  read_windows(in, config.shape, settings);
  read_factors(in, config.shape, settings);
  settings.norm_topk_prob = config.shape.family == Family::mixtral || in.flag("norm_topk_prob", false);
  settings.initializer_range = in.number("initializer_range", 0.02);
  settings.padding_row = read_padding_row(in, config.shape);
  settings.quantization = read_quantization(in);
  if (settings.quantization && kind == LayerKind::gpt2)
    in.fail(
        "'quantization_config': bitsandbytes transposes GPT-2's matrices, which is not supported; use the "
        "model that it was made from");
  extend_context(config.shape, settings.rotary);
  note_dropout(in, settings.notes);
  return config;
}

}  // namespace dpo::model
