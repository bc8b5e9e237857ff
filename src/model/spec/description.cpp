#include "model/spec/description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dpo::model {
namespace {

// Prints nine digits, which float32 needs. Further digits of a logarithm differ between C libraries.
std::string text_of(double value) { return fmt::format("{:.9g}", value); }

std::string text_of(Activation activation) {
  switch (activation) {
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::relu: return "relu";
    case Activation::silu: break;
  }
  return "silu";
}

std::string text_of(Rotary::Scaling scaling) {
  switch (scaling) {
    case Rotary::Scaling::linear: return "linear";
    case Rotary::Scaling::llama3: return "llama3";
    case Rotary::Scaling::yarn: return "yarn";
    case Rotary::Scaling::longrope: return "longrope";
    case Rotary::Scaling::none: break;
  }
  return "default";
}

// Lists the numbers of the layers that are marked.
std::string text_of(const std::vector<bool>& layers) {
  std::vector<std::size_t> marked;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i]) marked.push_back(i);
  return marked.empty() ? "none" : fmt::format("{}", fmt::join(marked, " "));
}

void add(Description& all, const Rotary& rotary, const std::string& prefix) {
  all[prefix + "dim"] = std::to_string(rotary.dim);
  all[prefix + "interleaved"] = fmt::format("{}", rotary.interleaved);
  all[prefix + "theta"] = text_of(rotary.theta);
  all[prefix + "type"] = text_of(rotary.scaling);
  if (rotary.scaling == Rotary::Scaling::none) return;
  all[prefix + "factor"] = text_of(rotary.factor);
  if (rotary.scaling == Rotary::Scaling::linear) return;
  all[prefix + "original_max_position_embeddings"] = std::to_string(rotary.original_context);
  all[prefix + "low_freq_factor"] = text_of(rotary.low_frequency_factor);
  all[prefix + "high_freq_factor"] = text_of(rotary.high_frequency_factor);
  all[prefix + "beta_fast"] = text_of(rotary.beta_fast);
  all[prefix + "beta_slow"] = text_of(rotary.beta_slow);
  all[prefix + "truncate"] = fmt::format("{}", rotary.truncate);
  all[prefix + "short_factor"] = fmt::format("{:.9g}", fmt::join(rotary.short_factors, " "));
  all[prefix + "long_factor"] = fmt::format("{:.9g}", fmt::join(rotary.long_factors, " "));
  all[prefix + "attention_factor"] = text_of(rotary.attention_factor);
}

void add(Description& all, const ModelShape& shape) {
  all["model_type"] = info_of(shape.family).model_type;
  all["num_hidden_layers"] = std::to_string(shape.layers);
  all["hidden_size"] = std::to_string(shape.hidden);
  all["intermediate_size"] = std::to_string(shape.ffn);
  all["num_attention_heads"] = std::to_string(shape.heads);
  all["num_key_value_heads"] = std::to_string(shape.kv_heads);
  all["head_dim"] = std::to_string(shape.head_dim);
  all["vocab_size"] = std::to_string(shape.vocabulary);
  all["sliding_window"] = std::to_string(shape.window);
  all["num_experts"] = std::to_string(shape.experts);
  all["num_experts_per_tok"] = std::to_string(shape.experts_per_token);
  all["attention_bias"] = fmt::format("{}", shape.attention_bias);
  all["mlp_bias"] = fmt::format("{}", shape.mlp_bias);
  all["use_parallel_residual"] = fmt::format("{}", shape.parallel_residual);
  all["use_qk_norm"] = fmt::format("{}", shape.query_key_norm);
}

}  // namespace

Description describe(const ModelConfig& config) {
  const Settings& settings = config.settings;
  Description all;
  add(all, config.shape);
  add(all, settings.rotary, "rope_");
  if (settings.window_rotary) add(all, *settings.window_rotary, "sliding_rope_");
  all["norm_eps"] = text_of(settings.norm_epsilon);
  all["hidden_act"] = text_of(settings.activation);
  all["no_rope_layers"] = text_of(settings.unrotated);
  all["sliding_layers"] = text_of(settings.windowed);
  all["attention_scale"] = text_of(settings.attention_scale);
  all["scale_attn_by_inverse_layer_idx"] = fmt::format("{}", settings.inverse_layer_scale);
  all["attn_logit_softcapping"] = text_of(settings.attention_cap);
  all["final_logit_softcapping"] = text_of(settings.logit_cap);
  all["embedding_multiplier"] = text_of(settings.embedding_multiplier);
  all["residual_multiplier"] = text_of(settings.residual_multiplier);
  all["logit_scale"] = text_of(settings.logit_multiplier);
  all["norm_topk_prob"] = fmt::format("{}", settings.norm_topk_prob);
  return all;
}

std::string differences(const Description& before, const Description& now) {
  std::vector<std::string> all;
  for (const auto& [key, value] : now)
    if (const auto found = before.find(key); found != before.end() && found->second != value)
      all.push_back(fmt::format("{} was {}, is {}", key, found->second, value));
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace dpo::model
