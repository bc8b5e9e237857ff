#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec/quantization.h"
#include "model/spec/rotary.h"
#include "model/spec/shape.h"

namespace dpo::model {

enum class Activation { gelu, gelu_tanh, relu, silu };

// Settings of a config.json other than the sizes.
struct Settings {
  double norm_epsilon = 1e-5;
  Activation activation{};
  Rotary rotary;
  std::optional<Rotary> window_rotary;  // for layers with a window, if theirs differs
  std::vector<bool> unrotated;          // layers without rotary embedding; empty: none
  std::vector<bool> windowed;           // layers that attend within ModelShape::window; empty: none
  double attention_scale = 1;
  bool inverse_layer_scale = false;         // GPT-2: scores are also divided by the layer's number, from 1
  double attention_cap = 0, logit_cap = 0;  // c * tanh(x / c) of attention scores and logits; 0: none
  double embedding_multiplier = 1, residual_multiplier = 1, logit_multiplier = 1;
  bool norm_topk_prob = false;  // the weights of a token's experts are scaled so that they add up to 1
  double initializer_range = 0.02;
  std::optional<std::int64_t> padding_row;   // of the embedding; zeros in a new model
  std::optional<Quantization> quantization;  // of the weights in the files
  std::vector<std::string> notes;            // messages for the user about ignored settings
};

struct ModelConfig {
  ModelShape shape;
  Settings settings;

  bool is_windowed(std::size_t layer) const { return !settings.windowed.empty() && settings.windowed[layer]; }
  bool is_rotated(std::size_t layer) const {
    return settings.unrotated.empty() || !settings.unrotated[layer];
  }
};

// Parses a config.json. Throws a UserError that names the feature if one is not supported.
ModelConfig parse_model_config(std::string_view config_json, const std::string& origin);

}  // namespace dpo::model
