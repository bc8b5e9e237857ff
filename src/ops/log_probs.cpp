#include "ops/log_probs.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/zeros_like.h>

#include "ops/column_sums.h"
#include "ops/matmul.h"

namespace dpo::ops {
namespace {

struct Chunk {
  std::int64_t start = 0, rows = 0;
};

// Splits long responses too, so that memory does not depend on the data.
std::vector<Chunk> chunks_of(const HeadInput& input) {
  std::vector<Chunk> chunks;
  const std::int64_t rows = input.hidden.size(0);
  for (std::int64_t start = 0; start < rows; start += input.chunk_rows)
    chunks.push_back({start, std::min(input.chunk_rows, rows - start)});
  return chunks;
}

at::Tensor part(const at::Tensor& tensor, const Chunk& chunk) {
  return tensor.narrow(0, chunk.start, chunk.rows);
}

// Computes logits in the precision of the weights. Values computed from them are float32 or better.
at::Tensor logits_of(const HeadInput& input, const Chunk& chunk) {
  return matmul(part(input.hidden, chunk), input.matrix, input.bias, /*transposed=*/false);
}

// Uses segment_reduce rather than scatter_add, because it gives the same bits every time, also on a GPU.
at::Tensor sums_of_responses(const HeadInput& input, const at::Tensor& token_log_probs) {
  const at::Tensor weighted =
      input.row_weights.defined() ? token_log_probs * input.row_weights : token_log_probs;
  return at::segment_reduce(weighted.narrow(0, 0, input.responses.of_rows.size(0)), "sum",
                            input.responses.lengths, /*indices=*/{}, /*offsets=*/{}, /*axis=*/0,
                            /*unsafe=*/true, /*initial=*/0);
}

at::TensorOptions upcast_options(const HeadInput& input) {
  const bool is_double = input.hidden.scalar_type() == at::kDouble;
  return input.hidden.options().dtype(is_double ? at::kDouble : at::kFloat);
}

ResponseScores empty_scores(const HeadInput& input, const ScoreOptions& options) {
  const auto wide = upcast_options(input);
  const std::int64_t rows = input.hidden.size(0);
  ResponseScores scores;
  scores.lse = at::empty({rows}, wide);
  scores.token_log_probs = at::empty({rows}, wide);
  if (options.entropy) scores.entropy = at::empty({rows}, wide);
  return scores;
}

// Returns true if the logits were only read.
bool score_chunk(const HeadInput& input, const Chunk& chunk, at::Tensor logits, ResponseScores& scores) {
  const RowScores found =
      score_rows(std::move(logits), part(input.targets, chunk), scores.entropy.defined(), input.logit_cap);
  part(scores.lse, chunk).copy_(found.lse);
  part(scores.token_log_probs, chunk).copy_(found.log_probs);
  if (scores.entropy.defined()) part(scores.entropy, chunk).copy_(found.entropy);
  return found.only_read;
}

// The backward pass of the head, chunk by chunk.
class HeadBackward {
 public:
  // `lse` is read by add(), so a chunk's values may be written after construction.
  HeadBackward(const HeadInput& input, const at::Tensor& lse, const at::Tensor& grad_log_probs,
               std::size_t chunks, HeadSums& sums)
      : input_(input),
        lse_(lse),
        by_row_(at::zeros_like(lse)),
        hidden_gradient_(at::empty(input.hidden.sizes(), input.hidden.options())),
        sums_(sums) {
    at::Tensor without_padding = by_row_.narrow(0, 0, input.responses.of_rows.size(0));
    at::index_select_out(without_padding, grad_log_probs.to(lse.scalar_type()), 0, input.responses.of_rows);
    if (input.row_weights.defined()) by_row_.mul_(input.row_weights);
    const at::Tensor& matrix = sums.matrix.tensor;
    if (matrix.defined() && chunks > 1 && matrix.element_size() < 4)
      wide_ = {at::empty(matrix.sizes(), matrix.options().dtype(at::kFloat)), std::make_shared<bool>(true)};
  }

  void add(const Chunk& chunk, at::Tensor logits) {
    at::Tensor gradient =
        score_rows_backward(std::move(logits), part(input_.targets, chunk), part(lse_, chunk),
                            part(by_row_, chunk), input_.first_row, input_.logit_cap);
    if (sums_.bias.tensor.defined()) sums_.bias.add(column_sums(gradient, sums_.bias.tensor.scalar_type()));
    gradient = gradient.to(input_.hidden.scalar_type());
    matmul_into(part(hidden_gradient_, chunk), gradient, input_.matrix);
    GradientSum& matrix = wide_.tensor.defined() ? wide_ : sums_.matrix;
    if (matrix.tensor.defined()) matrix.add_matmul(gradient, part(input_.hidden, chunk));
  }

  // Must be called after the last chunk. Returns the gradient of the hidden states.
  at::Tensor finish() {
    if (wide_.tensor.defined()) sums_.matrix.add(wide_.tensor);
    return hidden_gradient_;
  }

 private:
  const HeadInput& input_;
  at::Tensor lse_, by_row_, hidden_gradient_;
  HeadSums& sums_;
  GradientSum wide_ = {};
};

}  // namespace

ResponseScores score_responses(const HeadInput& input, const ScoreOptions& options) {
  ResponseScores scores = empty_scores(input, options);
  for (const Chunk& chunk : chunks_of(input)) {
    const bool keep = options.keep_last_logits && chunk.start + chunk.rows == input.hidden.size(0);
    at::Tensor logits = logits_of(input, chunk);
    const at::Tensor kept = keep ? logits : at::Tensor();
    if (score_chunk(input, chunk, std::move(logits), scores)) scores.last_logits = kept;
  }
  scores.log_probs = sums_of_responses(input, scores.token_log_probs);
  return scores;
}

ShardScores score_shard(const HeadInput& input) {
  const std::int64_t rows = input.hidden.size(0);
  ShardScores scores{at::empty({rows}, upcast_options(input)), at::empty({rows}, upcast_options(input))};
  for (const Chunk& chunk : chunks_of(input)) {
    const ShardScores found = score_shard_rows(logits_of(input, chunk), part(input.targets, chunk),
                                               *input.first_row, input.logit_cap);
    part(scores.lse, chunk).copy_(found.lse);
    part(scores.target_logits, chunk).copy_(found.target_logits);
  }
  return scores;
}

ResponseScores scores_from(const HeadInput& input, const ShardScores& whole) {
  ResponseScores scores;
  scores.lse = whole.lse;
  scores.token_log_probs = whole.target_logits - whole.lse;
  scores.log_probs = sums_of_responses(input, scores.token_log_probs);
  return scores;
}

at::Tensor score_responses_backward(const HeadInput& input, const at::Tensor& lse,
                                    const at::Tensor& grad_log_probs, HeadSums& sums,
                                    at::Tensor last_logits) {
  const std::vector<Chunk> chunks = chunks_of(input);
  HeadBackward backward(input, lse, grad_log_probs, chunks.size(), sums);
  for (const Chunk& chunk : std::views::reverse(chunks))
    backward.add(chunk, last_logits.defined() ? std::exchange(last_logits, {}) : logits_of(input, chunk));
  return backward.finish();
}

ScoresAndGradient score_responses_and_backward(const HeadInput& input, const ScoreOptions& options,
                                               const at::Tensor& grad_log_probs, HeadSums& sums) {
  ResponseScores scores = empty_scores(input, options);
  const std::vector<Chunk> chunks = chunks_of(input);
  HeadBackward backward(input, scores.lse, grad_log_probs, chunks.size(), sums);
  for (const Chunk& chunk : std::views::reverse(chunks)) {
    at::Tensor logits = logits_of(input, chunk);
    if (!score_chunk(input, chunk, logits, scores)) logits = logits_of(input, chunk);
    backward.add(chunk, std::move(logits));
  }
  scores.log_probs = sums_of_responses(input, scores.token_log_probs);
  return {std::move(scores), backward.finish()};
}

}  // namespace dpo::ops
