#include "ops/log_probs.h"

#include <algorithm>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "ops/head_rows.h"

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

// The matrix product in the precision of the weights; everything after it is in float32 or better.
at::Tensor logits_of(const HeadInput& input, const Chunk& chunk) {
  return at::linear(part(input.hidden, chunk), input.matrix,
                    input.bias.defined() ? std::optional(input.bias) : std::nullopt);
}

at::Tensor upcast(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
}

at::Tensor lengths_of(const HeadInput& input) {
  std::vector<std::int64_t> lengths;
  for (std::size_t r = 0; r + 1 < input.row_starts.size(); ++r)
    lengths.push_back(input.row_starts[r + 1] - input.row_starts[r]);
  return at::tensor(lengths, at::kLong).to(input.hidden.device());
}

// The targets as rows of this rank's shard of the vocabulary, and which of them are in it.
struct OwnTargets {
  at::Tensor rows, is_own;
};

OwnTargets own_targets(const HeadInput& input, const Chunk& chunk) {
  const std::int64_t size = input.matrix.size(0);
  const at::Tensor rows = part(input.targets, chunk) - *input.first_row;
  return {rows.clamp(0, size - 1), rows.ge(0).logical_and_(rows.lt(size))};
}

// segment_reduce rather than scatter_add: the same bits every time, also on a GPU.
at::Tensor sums_of_responses(const HeadInput& input, const at::Tensor& token_log_probs) {
  const at::Tensor weighted =
      input.row_weights.defined() ? token_log_probs * input.row_weights : token_log_probs;
  return at::segment_reduce(weighted, "sum", lengths_of(input), /*indices=*/{}, /*offsets=*/{}, /*axis=*/0,
                            /*unsafe=*/true, /*initial=*/0);
}

at::TensorOptions upcast_options(const HeadInput& input) {
  const bool is_double = input.hidden.scalar_type() == at::kDouble;
  return input.hidden.options().dtype(is_double ? at::kDouble : at::kFloat);
}

// lse - sum(p * logit), which is -sum(p * log p). The logits are overwritten.
at::Tensor entropy_of(at::Tensor& logits, const at::Tensor& lse) {
  const at::Tensor probabilities = (logits - lse.unsqueeze(1)).exp_();
  return lse - logits.mul_(probabilities).sum(1);
}

}  // namespace

ResponseScores score_responses(const HeadInput& input, bool with_entropy) {
  const auto options = upcast_options(input);
  const std::int64_t rows = input.hidden.size(0);
  ResponseScores scores;
  scores.lse = at::empty({rows}, options);
  scores.token_log_probs = at::empty({rows}, options);
  if (with_entropy) scores.entropy = at::empty({rows}, options);
  for (const Chunk& chunk : chunks_of(input)) {
    at::Tensor logits = logits_of(input, chunk);
    if (supports_rows(logits) && !with_entropy) {
      score_rows(logits, part(input.targets, chunk), part(scores.lse, chunk),
                 part(scores.token_log_probs, chunk));
      continue;
    }
    logits = upcast(logits);
    const at::Tensor lse = at::logsumexp(logits, 1);
    part(scores.lse, chunk).copy_(lse);
    part(scores.token_log_probs, chunk)
        .copy_(logits.gather(1, part(input.targets, chunk).unsqueeze(1)).squeeze(1) - lse);
    if (with_entropy) part(scores.entropy, chunk).copy_(entropy_of(logits, lse));
  }
  scores.log_probs = sums_of_responses(input, scores.token_log_probs);
  return scores;
}

PartialScores score_shard(const HeadInput& input) {
  const std::int64_t rows = input.hidden.size(0);
  PartialScores scores{at::empty({rows}, upcast_options(input)), at::empty({rows}, upcast_options(input))};
  for (const Chunk& chunk : chunks_of(input)) {
    const at::Tensor logits = upcast(logits_of(input, chunk));
    const OwnTargets targets = own_targets(input, chunk);
    part(scores.lse, chunk).copy_(at::logsumexp(logits, 1));
    part(scores.target_logits, chunk)
        .copy_(logits.gather(1, targets.rows.unsqueeze(1)).squeeze(1).mul_(targets.is_own));
  }
  return scores;
}

ResponseScores scores_from(const HeadInput& input, const PartialScores& whole) {
  ResponseScores scores;
  scores.lse = whole.lse;
  scores.token_log_probs = whole.target_logits - whole.lse;
  scores.log_probs = sums_of_responses(input, scores.token_log_probs);
  return scores;
}

at::Tensor score_responses_backward(const HeadInput& input, const at::Tensor& lse,
                                    const at::Tensor& by_response, at::Tensor matrix_gradient,
                                    at::Tensor bias_gradient) {
  at::Tensor by_row = by_response.to(lse.scalar_type())
                          .repeat_interleave(lengths_of(input), /*dim=*/0, /*output_size=*/lse.size(0));
  if (input.row_weights.defined()) by_row.mul_(input.row_weights);
  const at::Tensor hidden_gradient = at::empty(input.hidden.sizes(), input.hidden.options());
  const std::vector<Chunk> chunks = chunks_of(input);
  at::Tensor sum = matrix_gradient;
  if (matrix_gradient.defined() && chunks.size() > 1 && matrix_gradient.element_size() < 4)
    sum = at::zeros(matrix_gradient.sizes(), matrix_gradient.options().dtype(at::kFloat));
  for (const Chunk& chunk : chunks) {
    const at::Tensor scale = part(by_row, chunk).unsqueeze(1);
    // d log p(target) / d logits = one_hot(target) - p
    at::Tensor gradient = logits_of(input, chunk);
    if (supports_rows(gradient) && !input.first_row) {
      score_rows_backward(gradient, part(input.targets, chunk), part(lse, chunk), part(by_row, chunk));
    } else {
      gradient = upcast(gradient);
      gradient.sub_(part(lse, chunk).unsqueeze(1)).exp_().mul_(-scale);
      if (input.first_row) {
        const OwnTargets targets = own_targets(input, chunk);
        gradient.scatter_add_(1, targets.rows.unsqueeze(1), scale * targets.is_own.unsqueeze(1));
      } else {
        gradient.scatter_add_(1, part(input.targets, chunk).unsqueeze(1), scale);
      }
    }
    if (bias_gradient.defined()) bias_gradient.add_(gradient.sum(0));
    gradient = gradient.to(input.hidden.scalar_type());
    at::Tensor out = part(hidden_gradient, chunk);
    at::mm_out(out, gradient, input.matrix);
    if (!sum.defined()) continue;
    if (sum.scalar_type() == gradient.scalar_type())
      sum.addmm_(gradient.t(), part(input.hidden, chunk));
    else
      sum.add_(at::mm(gradient.t(), part(input.hidden, chunk)));
  }
  if (sum.defined() && !sum.is_same(matrix_gradient)) matrix_gradient.add_(sum);
  return hidden_gradient;
}

}  // namespace dpo::ops
