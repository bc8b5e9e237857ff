#include "model/tables/settings.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/tables/config_reader.h"

namespace dpo::model {
namespace {

using nlohmann::json;

// Keys of config.json, and transformers' defaults for them.
struct Keys {
  const char *epsilon, *activation, *default_activation;
  double default_epsilon;
};

Keys keys_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::gpt2:
    case LayerKind::gptj: return {"layer_norm_epsilon", "activation_function", "gelu_new", 1e-5};
    case LayerKind::gpt_neox: return {"layer_norm_eps", "hidden_act", "gelu", 1e-5};
    case LayerKind::llama: break;
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

// "rope_parameters", which files of transformers before version 5 call "rope_scaling".
const json& rotary_object(const ConfigReader& in) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = in.find(key);
    if (!value) continue;
    if (!value->is_object()) in.fail(fmt::format("'{}' is not an object", key));
    for (const auto& [name, member] : value->items())
      if (member.is_object())
        in.fail(fmt::format("'{}' has rotary embeddings by kind of layer ('{}'), which is not supported", key,
                            name));
    return *value;
  }
  static const json nothing = json::object();
  return nothing;
}

void read_scaling(Rotary& rotary, const ConfigReader& rope, std::int64_t context) {
  const std::string type = rope.text("rope_type", rope.text("type", "default").c_str());
  if (type == "default") return;
  if (type != "linear" && type != "llama3")
    rope.fail(fmt::format(
        "rotary embeddings of type '{}' are not supported (supported: default, linear, llama3)", type));
  rotary.scaling = type == "linear" ? Rotary::Scaling::linear : Rotary::Scaling::llama3;
  rotary.factor = rope.number("factor", 0);
  if (rotary.factor < 1) rope.fail("the rotary embedding's 'factor' is missing or below 1");
  if (type == "linear") return;
  rotary.low_frequency_factor = rope.number("low_freq_factor", 1);
  rotary.high_frequency_factor = rope.number("high_freq_factor", 4);
  rotary.original_context = rope.optional_size("original_max_position_embeddings").value_or(context);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor || rotary.low_frequency_factor <= 0)
    rope.fail(
        "the rotary embedding's 'high_freq_factor' must be above its 'low_freq_factor', and both above 0");
}

Rotary read_gptj_rotary(const ConfigReader& in, const ModelShape& shape) {
  Rotary rotary;
  rotary.interleaved = true;
  rotary.dim = in.optional_size("rotary_dim").value_or(64);
  if (rotary.dim > shape.head_dim || rotary.dim % 2 != 0)
    in.fail(fmt::format("'rotary_dim' is {}, expected an even number up to the head's {}", rotary.dim,
                        shape.head_dim));
  return rotary;
}

Rotary read_modern_rotary(const ConfigReader& in, const ModelShape& shape) {
  const ConfigReader rope(rotary_object(in), in.origin());
  const bool neox = shape.layer_kind() == LayerKind::gpt_neox;
  Rotary rotary;
  rotary.theta = rope.number("rope_theta", in.number(neox ? "rotary_emb_base" : "rope_theta", 10000));
  const double part = rope.number(
      "partial_rotary_factor", neox ? in.number("rotary_pct", 0.25) : in.number("partial_rotary_factor", 1));
  rotary.dim = static_cast<std::int64_t>(static_cast<double>(shape.head_dim) * part);
  if (part > 1 || rotary.dim < 2 || rotary.dim % 2 != 0 || rotary.theta <= 0)
    in.fail(fmt::format("rotary embeddings over {} of a head's {} dimensions with base {} are not valid",
                        rotary.dim, shape.head_dim, rotary.theta));
  read_scaling(rotary, rope, shape.context);
  return rotary;
}

Rotary read_rotary(const ConfigReader& in, const ModelShape& shape) {
  switch (shape.layer_kind()) {
    case LayerKind::gpt2: return {};
    case LayerKind::gptj: return read_gptj_rotary(in, shape);
    case LayerKind::gpt_neox:
    case LayerKind::llama: break;
  }
  return read_modern_rotary(in, shape);
}

bool has_window(const ConfigReader& in, Family family) {
  switch (family) {
    case Family::mistral: return true;
    case Family::qwen2:
    case Family::qwen3: return in.flag("use_sliding_window", false);
    case Family::gpt2:
    case Family::gpt_neox:
    case Family::gptj:
    case Family::llama: break;
  }
  return false;
}

// Only sequences longer than the window need it.
void apply_window(const ConfigReader& in, ModelShape& shape, std::vector<std::string>& notes) {
  if (!has_window(in, shape.family)) return;
  const auto window = in.optional_size("sliding_window");
  if (!window || *window >= shape.context) return;
  notes.push_back(
      fmt::format("{}: attention over a sliding window is not supported, so sequences are limited to "
                  "the window's {} tokens, within which it makes no difference",
                  in.origin(), *window));
  shape.context = *window;
}

void refuse_unsupported(const ConfigReader& in, LayerKind kind) {
  if (kind == LayerKind::gpt2) {
    for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
      if (in.flag(key, false)) in.fail(fmt::format("'{}' is not supported", key));
  }
  if (in.find("quantization_config"))
    in.fail("'quantization_config': quantized weights are not supported; use the original model");
}

// Only Llama and its relatives have a padding row. A negative id counts from the end, as in Python. An id
// beyond the vocabulary belongs to a tokenizer that was changed later.
std::optional<std::int64_t> read_padding_row(const ConfigReader& in, const ModelShape& shape) {
  const json* value = in.find("pad_token_id");
  if (shape.layer_kind() != LayerKind::llama || !value || !value->is_number_integer()) return std::nullopt;
  const auto id = value->get<std::int64_t>();
  if (id < -shape.vocabulary || id >= shape.vocabulary) return std::nullopt;
  return id < 0 ? id + shape.vocabulary : id;
}

// Preference training compares likelihoods, to which dropout would add noise.
void note_dropout(const ConfigReader& in, std::vector<std::string>& notes) {
  std::string found;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout"})
    if (const json* value = in.find(key); value && value->is_number() && value->get<double>() != 0)
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", key, value->dump());
  if (!found.empty()) notes.push_back(fmt::format("{}: dropout is ignored ({})", in.origin(), found));
}

}  // namespace

ModelConfig parse_model_config(std::string_view config_json, const std::string& origin) {
  ModelConfig config{parse_shape(config_json, origin), {}};
  const json object = json::parse(config_json);
  const ConfigReader in(object, origin);
  Settings& settings = config.settings;
  const LayerKind kind = config.shape.layer_kind();
  const Keys keys = keys_of(kind);
  refuse_unsupported(in, kind);
  settings.norm_epsilon = in.number(keys.epsilon, keys.default_epsilon);
  settings.activation = read_activation(in, keys);
  settings.rotary = read_rotary(in, config.shape);
  settings.scaled_attention = kind != LayerKind::gpt2 || in.flag("scale_attn_weights", true);
  settings.initializer_range = in.number("initializer_range", 0.02);
  settings.padding_row = read_padding_row(in, config.shape);
  apply_window(in, config.shape, settings.notes);
  note_dropout(in, settings.notes);
  return config;
}

std::vector<float> rotary_frequencies(const Rotary& rotary) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < rotary.dim; i += 2) {
    const auto exponent = static_cast<float>(i) / static_cast<float>(rotary.dim);
    float frequency = 1.0F / std::pow(static_cast<float>(rotary.theta), exponent);
    if (rotary.scaling == Rotary::Scaling::linear) frequency /= static_cast<float>(rotary.factor);
    if (rotary.scaling == Rotary::Scaling::llama3) {
      // Long waves are stretched, short ones stay, those between are blended.
      const double wavelength = 2 * std::numbers::pi / frequency;
      const auto context = static_cast<double>(rotary.original_context);
      const double low = rotary.low_frequency_factor, high = rotary.high_frequency_factor;
      const double blend = std::clamp((context / wavelength - low) / (high - low), 0.0, 1.0);
      frequency = static_cast<float>((1 - blend) * frequency / rotary.factor + blend * frequency);
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace dpo::model
