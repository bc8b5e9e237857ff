#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "model/tables/settings.h"
#include "model/tables/table.h"
#include "model/weights.h"

namespace dpo::model {

// What a layer knows of the tokens that it computes.
struct Context {
  at::Tensor tokens;     // int64 [tokens]
  at::Tensor positions;  // int64 [tokens]
  at::Tensor cos, sin;   // float32 [tokens, pairs]; undefined for models without rotary embeddings

  // Attention: queries, keys and values [tokens, heads, head_dim] in, [tokens, heads, head_dim] out.
  std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)> attend;
};

// The three kinds of blocks of a family. They know nothing of sharding, devices or recomputation.
struct BlockFunctions {
  at::Tensor (*embed)(const ModelConfig& config, const BlockWeights& weights, const Context& context);
  at::Tensor (*layer)(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                      const Context& context);
  at::Tensor (*final_norm)(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x);
};

extern const BlockFunctions kGpt2, kGptNeox, kGptj, kLlama;

// A model without its weights.
struct Model {
  ModelConfig config;
  TensorTable table;
  BlockFunctions functions;

  double attention_scale() const;
};

Model make_model(const ModelConfig& config);

// The context of tokens at these positions, without the attention.
Context make_context(const Model& model, const at::Tensor& tokens, const at::Tensor& positions);

// The matrix and the bias (undefined where there is none) that turn hidden states into logits.
at::Tensor head_matrix(const Model& model, const Weights& weights);
at::Tensor head_bias(const Weights& weights);

}  // namespace dpo::model
