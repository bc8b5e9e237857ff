#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/balance.h"
#include "model/batch.h"
#include "model/model.h"
#include "model/store.h"
#include "ops/log_probs.h"

namespace dpo::model {

struct PassOptions {
  bool entropy = false;                      // of the next token's distribution, for metrics
  std::int64_t recomputed_layers = 0;        // activation checkpointing: they save their inputs only
  std::int64_t chunk_rows = kHeadChunkRows;  // see kHeadChunkRows
  Dropout dropout = {};                      // of adapters; its seed is that of this pass
  bool fp8 = false;                          // products of layers in 8-bit floats, see ops::linear
  double router_aux_loss_coef = 0;           // of the balance loss, which a pass with gradients then computes
};

// What a block saves for the backward pass. Autograd works inside one block only.
struct SavedBlock {
  BlockWeights weights;    // leaves of the block's graph
  at::Tensor input;        // a leaf too, if anything before it is trained; undefined for the embedding
  at::Tensor output;       // undefined if it is recomputed
  at::Tensor routed = {};  // with a balance loss: the router's probabilities, summed over tokens
};

struct SavedActivations {
  std::vector<SavedBlock> blocks;  // the head's output is the normed rows
  at::Tensor lse;                  // of the head's logits
  at::Tensor last_logits;          // see ops::ResponseScores
  at::Tensor rows_gradient;        // of the normed rows, if the head's backward pass is done
  BalanceLoss balance;             // of all layers, if options.router_aux_loss_coef > 0
};

// The scores of the forest's responses. An empty forest has none, but asks the store for every block like any
// other: ranks that shard weights take part in every pass.
ops::ResponseScores forward(const Model& model, Store& store, const Batch& batch, const PassOptions& options);

// Gradients of a loss that do not depend on the log-probabilities, as those of SFT.
struct EarlyGradients {
  at::Tensor of_log_probs;
  GradientStore& gradients;
};

// The same; `saved` receives what backward() needs. With early gradients the head's backward pass is part of
// it, so that its logits are computed once, unless its vocabulary is sharded.
ops::ResponseScores forward(const Model& model, Store& store, const Batch& batch, const PassOptions& options,
                            SavedActivations& saved, const std::optional<EarlyGradients>& early = {});

// Adds the gradients of sum(grad_log_probs * log_probs), plus those of the balance loss times its
// coefficient, to `gradients`. `saved` is freed block by block. After a forward pass with early gradients
// both must be the same.
void backward(const Model& model, Store& store, const Batch& batch, const PassOptions& options,
              SavedActivations& saved, const at::Tensor& grad_log_probs, GradientStore& gradients);

// The logits of every token of the forest, [tokens, vocabulary]: for tests and small batches.
at::Tensor all_logits(const Model& model, Store& store, const Batch& batch);

// The same with weights that this process holds.
ops::ResponseScores forward(const Model& model, const Weights& weights, const Batch& batch,
                            const PassOptions& options);
at::Tensor all_logits(const Model& model, const Weights& weights, const Batch& batch);

}  // namespace dpo::model
