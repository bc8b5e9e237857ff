#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tables/shape.h"

namespace dpo::model {

enum class Activation { gelu, gelu_tanh, relu, silu };

// Rotary position embedding.
struct Rotary {
  enum class Scaling { none, linear, llama3 };

  std::int64_t dim = 0;      // how many of a head's first dimensions are rotated; 0: none
  bool interleaved = false;  // pairs are adjacent dimensions (GPT-J); otherwise one of each half
  double theta = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // of llama3
  std::int64_t original_context = 0;                           // of llama3
};

// What a config.json says besides the sizes.
struct Settings {
  double norm_epsilon = 1e-5;
  Activation activation{};
  Rotary rotary;
  bool scaled_attention = true;  // by 1 / sqrt(head_dim)
  double initializer_range = 0.02;
  std::optional<std::int64_t> padding_row;  // of the embedding; zeros in a new model
  std::vector<std::string> notes;           // what is ignored, for the user
};

struct ModelConfig {
  ModelShape shape;
  Settings settings;
};

// Parses a config.json. A feature that is not supported is a UserError that names it.
ModelConfig parse_model_config(std::string_view config_json, const std::string& origin);

// The frequency of each rotated pair of dimensions, as transformers computes it.
std::vector<float> rotary_frequencies(const Rotary& rotary);

}  // namespace dpo::model
