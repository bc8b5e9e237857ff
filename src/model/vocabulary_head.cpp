#include "model/vocabulary_head.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "model/tensor_parallel.h"

namespace dpo::model {
namespace {

// Returns the matrix that maps hidden states to logits, or its gradient. Null if `block` has neither.
const NamedTensor* head_matrix(const Model& model, const BlockWeights& block) {
  const NamedTensor* own = block.find(model.table.head_name);
  return own ? own : block.find(model.table.embedding_name);
}

// Holds the head's matrix while it is in use. A tied matrix belongs to the embedding's block.
class HeadMatrix {
 public:
  HeadMatrix(const Model& model, Store& store, const BlockWeights& head, std::optional<std::size_t> other,
             std::optional<std::size_t> next) {
    if (other) lease_.emplace(store, *other, next);
    matrix_ = head_matrix(model, other ? **lease_ : head)->tensor.to(head.flat.device());
  }

  const at::Tensor& operator*() const { return matrix_; }

 private:
  std::optional<Lease> lease_;
  at::Tensor matrix_;
};

// Returns the rows of a chunk of logits. Chunks have the same size in bytes in all dtypes if 16-bit logits
// need no float32 copy.
std::int64_t chunk_rows_of(std::int64_t chunk_rows, const at::Tensor& matrix, double logit_cap) {
  const bool as_they_are =
      matrix.element_size() == 2 && ops::reads_16_bit_rows(matrix.device(), matrix.scalar_type(), logit_cap);
  return as_they_are ? 2 * chunk_rows : chunk_rows;
}

ops::ResponseScores score(const BlockWeights& head, const ops::HeadInput& input,
                          const ops::ScoreOptions& options) {
  if (!head.tensor_group) return score_responses(input, options);
  const ops::ShardScores parts = score_shard(input);
  combine_lse(head, parts.lse);
  all_reduce_over_tensor_group(head, parts.target_logits);
  return scores_from(input, parts);
}

ops::ResponseScores no_scores() { return {at::empty({0}), at::empty({0}), at::empty({0}), {}, {}}; }

}  // namespace

VocabularyHead::VocabularyHead(const Model& model, Store& store, VocabularyHeadOptions options)
    : model_(model),
      store_(store),
      options_(std::move(options)),
      own_block_(model.table.first(BlockKind::head)),
      matrix_block_(model.table.is_tied() ? model.table.first(BlockKind::embedding) : own_block_) {}

std::optional<std::size_t> VocabularyHead::other_block() const {
  return matrix_block_ == own_block_ ? std::nullopt : std::optional(matrix_block_);
}

ops::ResponseScores VocabularyHead::forward(const BlockWeights& weights, const at::Tensor& rows,
                                            const Batch& batch) {
  const HeadMatrix matrix(model_, store_, weights, other_block(), std::nullopt);
  if (!rows.defined()) return no_scores();
  rows_ = rows;
  targets_ = batch.targets;
  responses_ = batch.responses;
  row_weights_ = batch.row_weights;
  const ops::HeadInput input = input_of(weights, *matrix);
  ops::ScoresAndGradient found;
  if (options_.constant && !weights.tensor_group)
    add_gradients(options_.constant->gradients, [&](ops::HeadSums& sums) {
      found = score_responses_and_backward(input, options_.scores,
                                           options_.constant->of_scores.to(rows.device()), sums);
    });
  else
    found.scores = score(weights, input, options_.scores);
  rows_gradient_ = std::move(found.hidden_gradient);
  lse_ = found.scores.lse;
  last_logits_ = std::exchange(found.scores.last_logits, {});
  return std::move(found.scores);
}

at::Tensor VocabularyHead::backward(const BlockWeights& weights, const at::Tensor& grad_scores,
                                    GradientStore& gradients) {
  const HeadMatrix matrix(model_, store_, weights, other_block(), own_block_);
  if (!rows_.defined())
    gradients.gradients(matrix_block_);  // zeros: this rank takes part in the reduction
  else if (!rows_gradient_.defined())
    add_gradients(gradients, [&](ops::HeadSums& sums) {
      rows_gradient_ = score_responses_backward(
          input_of(weights, *matrix), lse_, grad_scores.to(rows_.device()), sums, std::move(last_logits_));
    });
  if (matrix_block_ != own_block_) gradients.complete(matrix_block_);
  rows_.reset();
  return std::move(rows_gradient_);
}

at::Tensor VocabularyHead::logits(const BlockWeights& weights, const at::Tensor& rows) const {
  const HeadMatrix matrix(model_, store_, weights, other_block(), std::nullopt);
  const at::Tensor own = linear(rows, Matrix{*matrix}, weights.bias("lm_head"));
  return gather_logits(weights, ops::capped(own, model_.config.settings.logit_cap),
                       model_.config.shape.vocabulary);
}

ops::HeadInput VocabularyHead::input_of(const BlockWeights& weights, const at::Tensor& matrix) const {
  const double logit_cap = model_.config.settings.logit_cap;
  return {rows_,
          matrix,
          weights.bias("lm_head"),
          targets_,
          responses_,
          chunk_rows_of(options_.chunk_rows, matrix, logit_cap),
          row_weights_,
          first_vocabulary_row(weights, model_.config.shape.vocabulary),
          logit_cap};
}

// Calls `add` with the buffers that the gradients of the matrix and the bias belong in.
void VocabularyHead::add_gradients(GradientStore& gradients,
                                   const std::function<void(ops::HeadSums&)>& add) const {
  BlockWeights& of_matrix_block = gradients.gradients(matrix_block_);
  BlockWeights& of_own_block =
      matrix_block_ == own_block_ ? of_matrix_block : gradients.gradients(own_block_);
  ops::GradientSum of_matrix = sum_of(head_matrix(model_, of_matrix_block));
  ops::HeadSums sums{of_matrix, sum_of(of_own_block.find("lm_head.bias"))};
  // The gradient of a tied matrix on another device is computed here and added there.
  const bool is_elsewhere = of_matrix.tensor.defined() && of_matrix.tensor.device() != rows_.device();
  if (is_elsewhere)
    sums.matrix = {at::zeros_like(of_matrix.tensor, of_matrix.tensor.options().device(rows_.device()))};
  add(sums);
  if (is_elsewhere) of_matrix.add(sums.matrix.tensor.to(of_matrix.tensor.device()));
}

}  // namespace dpo::model
