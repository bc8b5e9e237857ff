#include "checkpoint/gguf_architecture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace dpo::checkpoint {
namespace {

using model::Family;
using model::LayerKind;
using Scaling = model::Rotary::Scaling;

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const Family family : model::all_families())
    if (gguf_architecture(family).name) names.emplace_back(model::info_of(family).name);
  return names;
}

// The period of layers with a window, whose last layer has none, or 0 if llama.cpp has no windows for the
// family.
std::size_t window_period(Family family) {
  if (family == Family::gemma2) return 2;
  if (family == Family::gemma3) return 6;
  return family == Family::olmo3 ? 4 : 0;
}

bool has_usual_windows(const model::ModelConfig& config) {
  const std::size_t period = window_period(config.shape.family);
  for (std::size_t i = 0; i < config.settings.windowed.size(); ++i)
    if (config.settings.windowed[i] != (i % period < period - 1)) return false;
  return true;
}

// The factor of attention scores that llama.cpp computes itself. It recognizes the models with 27 billion
// parameters by their layers.
double built_in_attention_scale(const model::ModelShape& shape) {
  const bool is_27b = (shape.family == Family::gemma2 && shape.layers == 46) ||
                      (shape.family == Family::gemma3 && shape.layers == 62);
  return 1 / std::sqrt(static_cast<double>(is_27b ? shape.hidden / shape.heads : shape.head_dim));
}

bool has_known_activation(const model::ModelConfig& config) {
  const model::Activation activation = config.settings.activation;
  switch (config.shape.layer_kind()) {
    case LayerKind::gpt2:
    case LayerKind::gpt_neox:  // llama.cpp approximates GELU by tanh
      return activation == model::Activation::gelu || activation == model::Activation::gelu_tanh;
    case LayerKind::gptj:
    case LayerKind::gemma: return activation == model::Activation::gelu_tanh;
    case LayerKind::llama:
    case LayerKind::olmo2:
    case LayerKind::cohere:
    case LayerKind::mixture: break;
  }
  return activation == model::Activation::silu;
}

// Only these read a table of factors for the rotary frequencies.
bool reads_rotary_factors(Family family) {
  return family == Family::llama || family == Family::mistral || family == Family::mixtral ||
         family == Family::granite;
}

bool is_usual_yarn(const model::Rotary& rotary) {
  return rotary.beta_fast == 32 && rotary.beta_slow == 1 && rotary.truncate;
}

// A requirement of llama.cpp, and what to say if a model does not meet it.
struct Rule {
  bool met;
  std::string otherwise;
};

std::vector<Rule> rotary_rules(const model::ModelConfig& config) {
  const model::Rotary& rotary = config.settings.rotary;
  const auto& window = config.settings.window_rotary;
  const Family family = config.shape.family;
  const bool can_be_partial = family == Family::phi3 || family == Family::gpt_neox || family == Family::gpt2;
  return {
      {can_be_partial || rotary.dim == config.shape.head_dim, "rotary embedding of a part of each head"},
      {rotary.scaling != Scaling::llama3 || reads_rotary_factors(family), "rotary embedding of type llama3"},
      {rotary.scaling != Scaling::longrope || family == Family::phi3, "rotary embedding of type longrope"},
      {rotary.scaling != Scaling::yarn || is_usual_yarn(rotary),
       "YaRN with other values than beta_fast 32, beta_slow 1 and truncate true"},
      {!window || window->scaling == Scaling::none, "a scaled rotary embedding in layers with a window"},
      {!window || family != Family::olmo3 || window->theta == rotary.theta,
       "another rope_theta in layers with a window"}};
}

bool rotates_usual_layers(const model::ModelConfig& config) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.shape.layers); ++i)
    if (config.is_rotated(i) != ((i + 1) % 4 != 0)) return false;
  return true;
}

std::vector<Rule> rules_of(const model::ModelConfig& config) {
  const model::ModelShape& shape = config.shape;
  const model::Settings& settings = config.settings;
  const GgufArchitecture known = gguf_architecture(shape.family);
  const bool scale_is_built_in =
      shape.family == Family::granite ||
      std::abs(settings.attention_scale / built_in_attention_scale(shape) - 1) < 1e-6;
  std::vector<Rule> rules = {
      {has_known_activation(config), "this activation function"},
      {scale_is_built_in, "this factor of attention scores (query_pre_attn_scalar, scale_attn_weights)"},
      {!settings.inverse_layer_scale, "scale_attn_by_inverse_layer_idx"},
      {known.has_biases || !shape.attention_bias, "biases in attention"},
      {shape.family != Family::gpt_neox || shape.attention_bias, "attention without biases"},
      {known.has_biases || !shape.mlp_bias, "biases in the MLP"},
      {!known.fixed_head_dim || shape.query_width() == shape.hidden,
       "heads whose widths do not add up to hidden_size"},
      {!known.head_is_tied || shape.tied_embeddings, "a head that is not tied to the embedding"},
      {!shape.query_key_norm, "norms of queries and keys"},
      {shape.family != Family::olmoe || shape.kv_heads == shape.heads, "fewer heads of keys than of queries"},
      {shape.family != Family::gemma2 || (settings.attention_cap > 0 && settings.logit_cap > 0),
       "a model without soft caps"},
      {shape.experts == 0 || settings.norm_topk_prob == (shape.family != Family::olmoe),
       "this norm_topk_prob"},
      {window_period(shape.family) == 0 || has_usual_windows(config), "windows in these layers"},
      {shape.family != Family::smollm3 || rotates_usual_layers(config),
       "rotary embedding in other layers than three of four"}};
  for (Rule& rule : rotary_rules(config)) rules.push_back(std::move(rule));
  return rules;
}

float as_float(double value) { return static_cast<float>(value); }
std::uint32_t as_size(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// Collects settings whose keys begin with the architecture.
class SettingsWriter {
 public:
  explicit SettingsWriter(std::string architecture) : architecture_(std::move(architecture)) {}

  void add(const char* key, GgufValue value) {
    settings.emplace_back(fmt::format("{}.{}", architecture_, key), std::move(value));
  }

  GgufMetadata settings;

 private:
  std::string architecture_;
};

void add_sizes(SettingsWriter& out, const model::ModelShape& shape) {
  out.add("context_length", as_size(shape.context));
  out.add("embedding_length", as_size(shape.hidden));
  out.add("block_count", as_size(shape.layers));
  out.add("feed_forward_length", as_size(shape.ffn));
  out.add("vocab_size", as_size(shape.vocabulary));
  out.add("attention.head_count", as_size(shape.heads));
  out.add("attention.head_count_kv", as_size(shape.kv_heads));
  out.add("attention.key_length", as_size(shape.head_dim));
  out.add("attention.value_length", as_size(shape.head_dim));
  if (shape.experts == 0) return;
  out.add("expert_count", as_size(shape.experts));
  out.add("expert_used_count", as_size(shape.experts_per_token));
  out.add("expert_feed_forward_length", as_size(shape.ffn));
}

void add_rotary(SettingsWriter& out, const model::ModelConfig& config) {
  const model::Rotary& rotary = config.settings.rotary;
  if (rotary.dim == 0) return;
  out.add("rope.dimension_count", as_size(rotary.dim));
  out.add("rope.freq_base", as_float(rotary.theta));
  if (const auto& window = config.settings.window_rotary)
    out.add("rope.freq_base_swa", as_float(window->theta));
  double attention_factor = rotary.attention_factor;
  switch (rotary.scaling) {
    case Scaling::none:
    case Scaling::llama3: return;  // llama3 is a table of factors
    case Scaling::linear: out.add("rope.scaling.type", "linear"); break;
    case Scaling::yarn:
      out.add("rope.scaling.type", "yarn");
      attention_factor /= 0.1 * std::log(rotary.factor) + 1;  // llama.cpp multiplies by this itself
      break;
    case Scaling::longrope: out.add("rope.scaling.type", "longrope"); break;
  }
  if (rotary.scaling != Scaling::longrope) out.add("rope.scaling.factor", as_float(rotary.factor));
  if (rotary.scaling != Scaling::linear)
    out.add("rope.scaling.original_context_length", as_size(rotary.original_context));
  out.add("rope.scaling.attn_factor", as_float(attention_factor));
}

void add_windows(SettingsWriter& out, const model::ModelConfig& config) {
  if (window_period(config.shape.family) == 0) return;
  if (!config.settings.windowed.empty())
    out.add("attention.sliding_window", as_size(config.shape.window));
  else if (config.shape.family == Family::gemma2)  // where a missing window is one of 4096
    out.add("attention.sliding_window", as_size(config.shape.context));
}

void add_factors(SettingsWriter& out, const model::ModelConfig& config) {
  const model::Settings& settings = config.settings;
  const Family family = config.shape.family;
  if (family == Family::gemma2) out.add("attn_logit_softcapping", as_float(settings.attention_cap));
  if (settings.logit_cap > 0) out.add("final_logit_softcapping", as_float(settings.logit_cap));
  if (family == Family::cohere) out.add("logit_scale", as_float(settings.logit_multiplier));
  if (family != Family::granite) return;
  out.add("attention.scale", as_float(settings.attention_scale));
  out.add("embedding_scale", as_float(settings.embedding_multiplier));
  out.add("residual_scale", as_float(settings.residual_multiplier));
  out.add("logit_scale", as_float(1 / settings.logit_multiplier));  // a divisor here
}

bool has_layer_norms(LayerKind kind) {
  return kind == LayerKind::gpt2 || kind == LayerKind::gpt_neox || kind == LayerKind::cohere;
}

// Names in a layer, without .weight and .bias.
const std::map<std::string, std::string>& layer_names() {
  static const std::map<std::string, std::string> names = {
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.gate", "ffn_gate_inp"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"experts.gate_proj", "ffn_gate_exps"},
      {"experts.up_proj", "ffn_up_exps"},
      {"experts.down_proj", "ffn_down_exps"},
      // GPT-NeoX
      {"attention.query_key_value", "attn_qkv"},
      {"attention.dense", "attn_output"},
      {"mlp.dense_h_to_4h", "ffn_up"},
      {"mlp.dense_4h_to_h", "ffn_down"},
      // GPT-2
      {"ln_1", "attn_norm"},
      {"attn.c_attn", "attn_qkv"},
      {"attn.c_proj", "attn_output"},
      {"ln_2", "ffn_norm"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
  };
  return names;
}

std::string layer_name(const std::string& name, LayerKind kind) {
  const bool norm_follows = kind == LayerKind::gemma || kind == LayerKind::olmo2;
  if (name == "post_attention_layernorm" && norm_follows) return "post_attention_norm";
  return layer_names().at(name);
}

}  // namespace

GgufArchitecture gguf_architecture(Family family) {
  switch (family) {
    case Family::gpt2: return {.name = "gpt2", .has_biases = true, .fixed_head_dim = true};
    case Family::gpt_neox:
      return {.name = "gptneox", .has_biases = true, .fixed_head_dim = true, .needs_head = true};
    case Family::gptj: return {};
    case Family::llama: return {.name = "llama", .rotates_neighbors = true, .has_biases = true};
    case Family::mistral:
    case Family::mixtral: return {.name = "llama", .rotates_neighbors = true};
    case Family::qwen2: return {.name = "qwen2", .fixed_head_dim = true};
    case Family::qwen3: return {.name = "qwen3"};
    case Family::qwen3_moe: return {.name = "qwen3moe"};
    case Family::gemma2: return {.name = "gemma2", .head_is_tied = true};
    case Family::gemma3: return {.name = "gemma3"};
    case Family::phi3: return {.name = "phi3", .fixed_head_dim = true};
    case Family::olmo2:
    case Family::olmo3: return {.name = "olmo2", .fixed_head_dim = true, .needs_head = true};
    case Family::olmoe: return {.name = "olmoe", .fixed_head_dim = true, .needs_head = true};
    case Family::smollm3: return {.name = "smollm3", .rotates_neighbors = true};
    case Family::granite: return {.name = "granite", .rotates_neighbors = true, .has_biases = true};
    // Cohere's own rotary embedding rotates neighbors, so its rows stay in place.
    case Family::cohere: return {.name = "command-r", .fixed_head_dim = true, .head_is_tied = true};
  }
  return {};
}

std::vector<std::string> check_for_gguf(const model::ModelConfig& config) {
  const char* const family = model::info_of(config.shape.family).name;
  if (!gguf_architecture(config.shape.family).name)
    throw UserError(fmt::format("llama.cpp does not know {}, so no GGUF can be written (it knows {})", family,
                                fmt::join(known_families(), ", ")));
  std::vector<std::string> problems;
  for (const Rule& rule : rules_of(config))
    if (!rule.met)
      problems.push_back(
          fmt::format("llama.cpp does not support {} in {}; GGUF is not written", rule.otherwise, family));
  if (!problems.empty()) throw UserError(std::move(problems));
  if (config.settings.windowed.empty() || window_period(config.shape.family) > 0) return {};
  return {fmt::format(
      "llama.cpp computes full attention where this model has a sliding window, so results differ for texts "
      "of more than {} tokens",
      config.shape.window)};
}

GgufMetadata gguf_settings(const model::ModelConfig& config) {
  SettingsWriter out(gguf_architecture(config.shape.family).name);
  add_sizes(out, config.shape);
  out.add(has_layer_norms(config.shape.layer_kind()) ? "attention.layer_norm_epsilon"
                                                     : "attention.layer_norm_rms_epsilon",
          as_float(config.settings.norm_epsilon));
  if (config.shape.family == Family::gpt_neox)
    out.add("use_parallel_residual", config.shape.parallel_residual);
  add_rotary(out, config);
  add_windows(out, config);
  add_factors(out, config);
  return std::move(out.settings);
}

std::string gguf_name(const model::TensorTable& table, const model::Block& block, const std::string& tensor,
                      Family family) {
  if (tensor == table.embedding_name) return "token_embd.weight";
  if (tensor == table.head_name) return "output.weight";
  const std::size_t dot = tensor.rfind('.');
  const bool has_ending = tensor.ends_with(".weight") || tensor.ends_with(".bias");
  const std::string ending = has_ending ? tensor.substr(dot) : ".weight";
  const std::string name = has_ending ? tensor.substr(0, dot) : tensor;
  switch (block.kind) {
    case model::BlockKind::embedding: return "position_embd" + ending;
    case model::BlockKind::head: return "output_norm" + ending;
    case model::BlockKind::layer: break;
  }
  const std::string in_layer = name.starts_with(block.prefix) ? name.substr(block.prefix.size()) : name;
  return fmt::format("blk.{}.{}{}", block.layer, layer_name(in_layer, model::info_of(family).layers), ending);
}

}  // namespace dpo::checkpoint
