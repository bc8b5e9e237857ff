#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "model/store.h"
#include "model/tables/settings.h"
#include "model/tables/table.h"
#include "model/weights.h"
#include "ops/attention.h"
#include "ops/row_sums.h"

namespace dpo::model {

// Attention of a layer, counted from 0: queries, keys, values and the result are [tokens, heads, head_dim].
using Attention = std::function<at::Tensor(std::size_t layer, const at::Tensor& q, const at::Tensor& k,
                                           const at::Tensor& v)>;

// Receives what a router computes: probabilities, float32 [tokens, experts], and the chosen experts, int64
// [tokens, chosen].
using OnRouting = std::function<void(const at::Tensor& probabilities, const at::Tensor& experts)>;

// Of every token, for rotary embeddings: float32 [tokens, pairs]; undefined without them.
struct Angles {
  at::Tensor cos, sin;
};

// What a layer needs to know besides its weights and its input.
struct Context {
  at::Tensor tokens;     // int64 [tokens]
  at::Tensor positions;  // int64 [tokens]
  Angles angles;
  Angles window_angles;  // of layers with a window, where theirs differ
  std::size_t layer = 0;
  Attention attention;
  OnRouting on_routing = {};  // if set
  at::Tensor rows = {};       // int64: the tokens whose output of this layer is needed; undefined: all
  ops::RowSums token_sums = {}, row_sums = {};  // for the gradients of what `tokens` and `rows` select

  // The rows of x, [tokens, hidden], that are needed. What a layer adds to the output of attention must be
  // these, since attend() has no others.
  at::Tensor needed(const at::Tensor& x) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const;
};

// The three kinds of blocks of a family, which do not know about sharding, devices or recomputation.
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
  // The tensors that are trained, in the same blocks: leaves of autograd, gradients, optimizer and checkpoint
  // follow it. All of the table, or those of an adapter.
  TensorTable trained;
  BlockFunctions functions;

  // Of a layer, counted from 0.
  ops::AttentionOptions attention_options(std::size_t layer) const;
};

Model make_model(const ModelConfig& config);

// A model whose own tensors are frozen, with an adapter that is trained (adapter_table).
Model make_model(const ModelConfig& config, TensorTable adapter);

// The context of tokens at these positions, for the first layer. `lengths`, int64 [tokens]: of the longest
// sequence that each token is part of.
Context make_context(const Model& model, const at::Tensor& tokens, const at::Tensor& positions,
                     const at::Tensor& lengths, Attention attention);

// The block with the matrix that maps hidden states to logits: the head, or the embedding if they are tied.
std::size_t head_matrix_block(const Model& model);

// That matrix and the head's bias, or their gradients; null if the block has none.
const NamedTensor* head_matrix(const Model& model, const BlockWeights& block);
const NamedTensor* head_bias(const BlockWeights& head);

// The logits of normed hidden states, with the model's cap if it has one.
at::Tensor head_logits(const Model& model, const BlockWeights& head, const Matrix& matrix,
                       const at::Tensor& hidden);

// The head's matrix while it is in use. A tied one belongs to the embedding's block.
class HeadMatrix {
 public:
  HeadMatrix(const Model& model, Store& store, const BlockWeights& head, std::optional<std::size_t> next);

  const Matrix& operator*() const { return matrix_; }

 private:
  std::optional<Lease> lease_;
  Matrix matrix_;
};

}  // namespace dpo::model
