#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "ops/head_rows.h"
#include "ops/linear.h"

namespace dpo::ops {

// Maps rows to responses. Rows after the last response are padding.
struct ResponseRows {
  at::Tensor lengths;  // int64 [responses]: rows of each response
  at::Tensor of_rows;  // int64 [rows without padding]: the response of each row
};

// Input of the language model head: rows of hidden states, each of which predicts a token.
struct HeadInput {
  at::Tensor hidden;   // [rows, hidden]
  at::Tensor matrix;   // [vocabulary, hidden]
  at::Tensor bias;     // [vocabulary], or undefined
  at::Tensor targets;  // int64 [rows]
  ResponseRows responses;
  std::int64_t chunk_rows = 0;  // most rows of logits in memory at once
  at::Tensor row_weights = {};  // [rows]: a token's weight in its response's sum; undefined: 1
  // First row of this rank's shard, if the vocabulary is sharded over tensor-parallel ranks.
  std::optional<std::int64_t> first_row = {};
  double logit_cap = 0;  // see capped()
};

struct ResponseScores {
  at::Tensor log_probs;        // float32 [responses]: weighted sum over the response's tokens
  at::Tensor lse;              // float32 [rows], needed by the backward pass
  at::Tensor token_log_probs;  // float32 [rows]
  at::Tensor entropy;          // float32 [rows], if requested: of the next-token distribution
  at::Tensor last_logits;      // of the last chunk, if requested and not overwritten
};

struct ScoreOptions {
  bool entropy = false;
  bool keep_last_logits = false;
};

ResponseScores score_responses(const HeadInput& input, const ScoreOptions& options);

// Scores in two steps, for a vocabulary sharded over ranks: score_shard() scores this rank's shard, and
// scores_from() takes the parts after they were combined over ranks.
ShardScores score_shard(const HeadInput& input);
ResponseScores scores_from(const HeadInput& input, const ShardScores& whole);

// Sums that receive the gradients of the head's weights. Sums without a tensor are skipped.
struct HeadSums {
  GradientSum matrix, bias;
};

// Adds the gradients of sum(grad_log_probs * log_probs) to the sums, and returns the gradient of the hidden
// states. It recomputes the logits chunk by chunk, from the last one, whose logits may have been kept. With
// several chunks, a 16-bit matrix gradient is first accumulated in float32.
at::Tensor score_responses_backward(const HeadInput& input, const at::Tensor& lse,
                                    const at::Tensor& grad_log_probs, HeadSums& sums,
                                    at::Tensor last_logits = {});

// Scores and gradients with the logits computed once, for gradients that do not depend on the scores. The
// results are bit-identical to the two separate calls.
struct ScoresAndGradient {
  ResponseScores scores;
  at::Tensor hidden_gradient;
};
ScoresAndGradient score_responses_and_backward(const HeadInput& input, const ScoreOptions& options,
                                               const at::Tensor& grad_log_probs, HeadSums& sums);

}  // namespace dpo::ops
