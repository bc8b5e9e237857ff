#pragma once

#include <functional>
#include <optional>

#include "model/head.h"
#include "model/model.h"

namespace dpo::model {

struct VocabularyHeadOptions {
  ops::ScoreOptions scores;
  std::int64_t chunk_rows = kHeadChunkRows;  // see kHeadChunkRows
  // If set, forward() also does the work of backward(), so that the logits are computed once, unless the
  // vocabulary is sharded.
  std::optional<ConstantLossGradients> constant = {};
};

// Scores responses by the log-probabilities of their tokens, over logits of the whole vocabulary.
class VocabularyHead : public Head {
 public:
  // `model` and `store` must outlive the head.
  VocabularyHead(const Model& model, Store& store, VocabularyHeadOptions options);

  std::optional<std::size_t> other_block() const override;
  ops::ResponseScores forward(const BlockWeights& weights, const at::Tensor& rows,
                              const Batch& batch) override;
  at::Tensor backward(const BlockWeights& weights, const at::Tensor& grad_scores,
                      GradientStore& gradients) override;

  // Returns the logits of the rows, [rows, vocabulary], with the model's cap if it has one.
  at::Tensor logits(const BlockWeights& weights, const at::Tensor& rows) const;

 private:
  ops::HeadInput input_of(const BlockWeights& weights, const at::Tensor& matrix) const;
  void add_gradients(GradientStore& gradients, const std::function<void(ops::HeadSums&)>& add) const;

  const Model& model_;
  Store& store_;
  const VocabularyHeadOptions options_;
  const std::size_t own_block_, matrix_block_;  // equal unless the matrix is the embedding's
  // Saved for backward():
  at::Tensor rows_, targets_, row_weights_;
  ops::ResponseRows responses_;
  at::Tensor lse_;            // log-sum-exp of the logits
  at::Tensor last_logits_;    // see ops::ResponseScores
  at::Tensor rows_gradient_;  // defined if forward() did the work of backward()
};

}  // namespace dpo::model
