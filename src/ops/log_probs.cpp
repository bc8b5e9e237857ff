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
#include "ops/product.h"

namespace dpo::ops {
namespace {

struct Chunk {
  std::int64_t start = 0, rows = 0;
};

// A long response is split too, so that memory does not depend on the data.
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

// In the precision of the weights; what is computed from them is float32 or better.
at::Tensor logits_of(const HeadInput& input, const Chunk& chunk) {
  return product(part(input.hidden, chunk), input.matrix, input.bias, /*transposed=*/false);
}

// segment_reduce rather than scatter_add: the same bits every time, also on a GPU.
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

}  // namespace

ResponseScores score_responses(const HeadInput& input, const ScoreOptions& options) {
  const auto wide = upcast_options(input);
  const std::int64_t rows = input.hidden.size(0);
  ResponseScores scores;
  scores.lse = at::empty({rows}, wide);
  scores.token_log_probs = at::empty({rows}, wide);
  if (options.entropy) scores.entropy = at::empty({rows}, wide);
  for (const Chunk& chunk : chunks_of(input)) {
    const bool keep = options.keep_last_logits && chunk.start + chunk.rows == rows;
    at::Tensor logits = logits_of(input, chunk);
    const at::Tensor kept = keep ? logits : at::Tensor();
    const RowScores found =
        score_rows(std::move(logits), part(input.targets, chunk), options.entropy, input.logit_cap);
    if (found.only_read) scores.last_logits = kept;
    part(scores.lse, chunk).copy_(found.lse);
    part(scores.token_log_probs, chunk).copy_(found.log_probs);
    if (options.entropy) part(scores.entropy, chunk).copy_(found.entropy);
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
                                    const at::Tensor& grad_log_probs, GradientSum& matrix, GradientSum& bias,
                                    at::Tensor last_logits) {
  at::Tensor by_row = at::zeros_like(lse);
  at::Tensor without_padding = by_row.narrow(0, 0, input.responses.of_rows.size(0));
  at::index_select_out(without_padding, grad_log_probs.to(lse.scalar_type()), 0, input.responses.of_rows);
  if (input.row_weights.defined()) by_row.mul_(input.row_weights);
  const at::Tensor hidden_gradient = at::empty(input.hidden.sizes(), input.hidden.options());
  const std::vector<Chunk> chunks = chunks_of(input);
  GradientSum wide;
  if (matrix.tensor.defined() && chunks.size() > 1 && matrix.tensor.element_size() < 4)
    wide = {at::empty(matrix.tensor.sizes(), matrix.tensor.options().dtype(at::kFloat)),
            std::make_shared<bool>(true)};
  GradientSum& sum = wide.tensor.defined() ? wide : matrix;
  for (const Chunk& chunk : std::views::reverse(chunks)) {
    at::Tensor logits = last_logits.defined() ? std::exchange(last_logits, {}) : logits_of(input, chunk);
    at::Tensor gradient = score_rows_backward(std::move(logits), part(input.targets, chunk), part(lse, chunk),
                                              part(by_row, chunk), input.first_row, input.logit_cap);
    if (bias.tensor.defined()) bias.add(column_sums(gradient, bias.tensor.scalar_type()));
    gradient = gradient.to(input.hidden.scalar_type());
    product_into(part(hidden_gradient, chunk), gradient, input.matrix);
    if (sum.tensor.defined()) sum.add_product(gradient, part(input.hidden, chunk));
  }
  if (wide.tensor.defined()) matrix.add(wide.tensor);
  return hidden_gradient;
}

}  // namespace dpo::ops
