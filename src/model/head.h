#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "model/batch.h"
#include "model/store.h"
#include "ops/log_probs.h"

namespace dpo::model {

// Gradients of the scores that are known before the forward pass, because they do not depend on the scores
// (SFT).
struct ConstantLossGradients {
  at::Tensor of_scores;
  GradientStore& gradients;
};

// Computes the scores of responses from the rows of a pass: the hidden states that the norm of the head's
// block returns. A pass makes its own head, which saves in forward() what backward() needs.
class Head {
 public:
  virtual ~Head() = default;

  // Returns the block that the head reads in addition to its own: the embedding, if their matrices are tied.
  virtual std::optional<std::size_t> other_block() const = 0;

  // Returns the scores of the responses of `batch`. `weights` are those of the head's block; `rows` [rows,
  // hidden] and `batch` are on its device. The rows of an empty batch are undefined.
  virtual ops::ResponseScores forward(const BlockWeights& weights, const at::Tensor& rows,
                                      const Batch& batch) = 0;

  // Adds the gradients of the head's weights to `gradients`, and returns the gradient of the rows. After a
  // forward pass with constant gradients, `grad_scores` and `gradients` must be the ones given there.
  virtual at::Tensor backward(const BlockWeights& weights, const at::Tensor& grad_scores,
                              GradientStore& gradients) = 0;
};

}  // namespace dpo::model
