#pragma once

#include <cstdint>
#include <vector>

#include "model/spec/config_reader.h"
#include "model/spec/shape.h"

namespace dpo::model {

// Settings of a rotary position embedding.
struct Rotary {
  enum class Scaling { none, linear, llama3, yarn, longrope };

  std::int64_t dim = 0;      // how many of a head's first dimensions are rotated; 0: none
  bool interleaved = false;  // pairs are adjacent dimensions (GPT-J, Cohere); otherwise one of each half
  double theta = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  std::int64_t original_context = 0;                           // of llama3, yarn and longrope
  double low_frequency_factor = 1, high_frequency_factor = 4;  // of llama3
  double beta_fast = 32, beta_slow = 1;                        // of yarn
  bool truncate = true;                                        // of yarn
  std::vector<float> short_factors = {}, long_factors = {};    // of longrope, one for each pair
  double attention_factor = 1;                                 // cosines and sines are multiplied by it
};

// Read the rotary embedding of a model (of its layers without a window, if those with one differ), and that
// of layers with a window in families whose config.json can specify it separately (Gemma 3, OLMo 3).
Rotary read_rotary(const ConfigReader& in, const ModelShape& shape);
Rotary read_window_rotary(const ConfigReader& in, const ModelShape& shape);

// Returns the frequency of each rotated pair of dimensions, as transformers computes it. With longrope,
// sequences longer than the original context use different frequencies.
std::vector<float> rotary_frequencies(const Rotary& rotary, bool is_long = false);

}  // namespace dpo::model
