#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "model/spec/settings.h"
#include "model/spec/table.h"
#include "model/weights.h"
#include "ops/attention.h"
#include "ops/row_sums.h"

namespace dpo::model {

// Computes attention of a layer, counted from 0. Queries, keys, values and the result are [tokens, heads,
// head_dim].
using Attention = std::function<at::Tensor(std::size_t layer, const at::Tensor& q, const at::Tensor& k,
                                           const at::Tensor& v)>;

// Receives a router's output: probabilities, float32 [tokens, experts], and the chosen experts, int64
// [tokens, chosen].
using OnRouting = std::function<void(const at::Tensor& probabilities, const at::Tensor& experts)>;

// Rotary angles of every token, float32 [tokens, pairs]. Undefined without rotary embeddings.
struct Angles {
  at::Tensor cos, sin;
};

// Inputs of a layer other than its weights and hidden states.
struct Context {
  at::Tensor tokens;     // int64 [tokens]
  at::Tensor positions;  // int64 [tokens]
  Angles angles;
  Angles window_angles;  // for layers with a window, if theirs differ
  std::size_t layer = 0;
  Attention attention;
  OnRouting on_routing = {};  // may be empty
  at::Tensor rows = {};       // int64, tokens whose output of this layer is needed; undefined: all
  // For the gradients of the rows that `tokens` and `rows` select.
  ops::RowSums token_sums = {}, row_sums = {};

  // Returns the rows of x [tokens, hidden] that are needed. attend() returns only these rows, so a layer must
  // apply needed() to everything that it adds to the attention output.
  at::Tensor needed(const at::Tensor& x) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const;
};

// Forward functions of a family's three kinds of blocks. They do not depend on sharding, devices or
// recomputation.
struct BlockFunctions {
  at::Tensor (*embed)(const ModelConfig& config, const BlockWeights& weights, const Context& context);
  at::Tensor (*layer)(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                      const Context& context);
  at::Tensor (*final_norm)(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x);
};

extern const BlockFunctions kGpt2, kGptNeox, kGptj, kLlama, kGemma, kOlmo2, kCohere, kMixture;

// A model without its weights.
struct Model {
  ModelConfig config;
  TensorTable table;
  // The trained tensors, in the same blocks: all of `table`, or those of an adapter. Autograd leaves,
  // gradients, optimizer state and checkpoints follow this table.
  TensorTable trained;
  BlockFunctions functions;

  // Returns the attention options of a layer, counted from 0.
  ops::AttentionOptions attention_options(std::size_t layer) const;
};

Model make_model(const ModelConfig& config);

// Makes a model whose own tensors are frozen and whose adapter is trained (see adapter_table).
Model make_model(const ModelConfig& config, TensorTable adapter);

// Makes the first layer's context for tokens at these positions. `lengths`, int64 [tokens], has the length of
// the longest sequence that each token is part of.
Context make_context(const Model& model, const at::Tensor& tokens, const at::Tensor& positions,
                     const at::Tensor& lengths, Attention attention);

}  // namespace dpo::model
