#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/balance.h"
#include "model/batch.h"
#include "model/head.h"
#include "model/model.h"
#include "model/store.h"

namespace dpo::model {

struct PassOptions {
  bool entropy = false;                // compute the entropy of the next token's distribution, for metrics
  std::int64_t recomputed_layers = 0;  // layers with activation checkpointing, which save only their inputs
  std::int64_t chunk_rows = kHeadChunkRows;  // rows of float32 logits in memory at a time
  Dropout dropout = {};                      // of adapters, with the seed of this pass
  bool fp8 = false;                          // matmuls of layers in FP8, see ops::linear
  double router_aux_loss_coef = 0;  // weight of the balance loss in passes that compute gradients; 0: none
};

// State that a block saves for the backward pass. Each block has its own autograd graph.
struct SavedBlock {
  BlockWeights weights;    // leaves of the block's graph
  at::Tensor input;        // a leaf too if an earlier block is trained; undefined for the embedding
  at::Tensor output;       // undefined if it is recomputed
  at::Tensor routed = {};  // with a balance loss: the router's probabilities, summed over tokens
};

struct SavedActivations {
  std::vector<SavedBlock> blocks;  // the output of the head's block is the normed rows
  std::unique_ptr<Head> head;      // with what it saved
  BalanceLoss balance;             // over all layers, if options.router_aux_loss_coef > 0
};

// Returns the scores of the forest's responses. An empty forest has none but still asks the store for every
// block, because ranks that shard weights take part in every pass.
ops::ResponseScores forward(const Model& model, Store& store, const Batch& batch, const PassOptions& options);

// Also fills `saved` with what backward() needs, which refers to the model and the store. With constant
// gradients the head's backward pass may run here (see VocabularyHeadOptions).
ops::ResponseScores forward(const Model& model, Store& store, const Batch& batch, const PassOptions& options,
                            SavedActivations& saved,
                            const std::optional<ConstantLossGradients>& constant = {});

// Adds the gradients of sum(grad_log_probs * log_probs), plus those of the balance loss times its
// coefficient, to `gradients`. Frees `saved` block by block. After a forward pass with constant gradients,
// `grad_log_probs` and `gradients` must be the ones given there.
void backward(const Model& model, Store& store, const Batch& batch, const PassOptions& options,
              SavedActivations& saved, const at::Tensor& grad_log_probs, GradientStore& gradients);

// Returns the logits of the batch's rows, or of every token if it has no rows, [rows, vocabulary]. Layers
// compute all tokens, with this attention, or with that over the batch's layout if there is none.
at::Tensor logits_of(const Model& model, Store& store, const Batch& batch, const Attention& attention = {});

// Returns the logits of every token of the forest, [tokens, vocabulary]. Meant for tests and small batches.
at::Tensor all_logits(const Model& model, Store& store, const Batch& batch);

// Overloads for weights that this process holds whole.
ops::ResponseScores forward(const Model& model, const Weights& weights, const Batch& batch,
                            const PassOptions& options);
at::Tensor all_logits(const Model& model, const Weights& weights, const Batch& batch);

}  // namespace dpo::model
