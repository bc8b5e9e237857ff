#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "ops/head_rows.h"
#include "ops/linear.h"

namespace dpo::ops {

// Which rows are those of which response. Rows after them are padding.
struct ResponseRows {
  at::Tensor lengths;  // int64 [responses]: rows of each
  at::Tensor of_rows;  // int64 [rows without padding]: the response of each
};

// The head's input: rows of hidden states, each of which predicts a token.
struct HeadInput {
  at::Tensor hidden;   // [rows, hidden]
  at::Tensor matrix;   // [vocabulary, hidden]
  at::Tensor bias;     // [vocabulary], or undefined
  at::Tensor targets;  // int64 [rows]
  ResponseRows responses;
  std::int64_t chunk_rows = 0;  // rows of logits in memory at once, at most
  at::Tensor row_weights = {};  // [rows]: how much each token counts in its response's sum; undefined: 1
  // With a vocabulary sharded over tensor-parallel ranks: the first row of this rank's shard.
  std::optional<std::int64_t> first_row = {};
  double logit_cap = 0;  // see capped()
};

struct ResponseScores {
  at::Tensor log_probs;        // float32 [responses], the weighted sum over the response's tokens
  at::Tensor lse;              // float32 [rows], what the backward pass needs
  at::Tensor token_log_probs;  // float32 [rows]
  at::Tensor entropy;          // float32 [rows], if requested: of the distribution over next tokens
  at::Tensor last_logits;      // of the last chunk, if requested and if they were not overwritten
};

struct ScoreOptions {
  bool entropy = false;
  bool keep_last_logits = false;
};

ResponseScores score_responses(const HeadInput& input, const ScoreOptions& options);

// The same in two steps, for a vocabulary sharded over ranks: first this rank's part; then, after the parts
// were combined over ranks, the scores.
ShardScores score_shard(const HeadInput& input);
ResponseScores scores_from(const HeadInput& input, const ShardScores& whole);

// Where the gradients of the head's weights are added, if they have a tensor.
struct HeadSums {
  GradientSum matrix, bias;
};

// Adds the gradients of sum(grad_log_probs * log_probs) to the sums, and returns that of the hidden states.
// The logits are recomputed, chunk by chunk from the last, whose logits may have been kept; with several
// chunks, a 16-bit matrix gradient is accumulated in float32 first.
at::Tensor score_responses_backward(const HeadInput& input, const at::Tensor& lse,
                                    const at::Tensor& grad_log_probs, HeadSums& sums,
                                    at::Tensor last_logits = {});

// Both at once, to the same bits, for gradients that do not depend on the scores: logits are computed once.
struct ScoresAndGradient {
  ResponseScores scores;
  at::Tensor hidden_gradient;
};
ScoresAndGradient score_responses_and_backward(const HeadInput& input, const ScoreOptions& options,
                                               const at::Tensor& grad_log_probs, HeadSums& sums);

}  // namespace dpo::ops
