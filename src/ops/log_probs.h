#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// What the head turns into probabilities: rows of hidden states, each of which predicts a token.
struct HeadInput {
  at::Tensor hidden;                         // [rows, hidden]
  at::Tensor matrix;                         // [vocabulary, hidden]
  at::Tensor bias;                           // [vocabulary], or undefined
  at::Tensor targets;                        // int64 [rows]
  std::span<const std::int32_t> row_starts;  // [responses + 1], the rows of each response
  std::int64_t chunk_rows = 0;               // the most rows of logits that are in memory at once
  at::Tensor row_weights = {};  // [rows]: how much each token counts in its response's sum; undefined: 1
  // Of a vocabulary that ranks divide: the row of the whole matrix that this one begins with.
  std::optional<std::int64_t> first_row = {};
};

struct ResponseScores {
  at::Tensor log_probs;        // float32 [responses], summed over the response's tokens by their weights
  at::Tensor lse;              // float32 [rows], what the backward pass needs
  at::Tensor token_log_probs;  // float32 [rows]
  at::Tensor entropy;          // float32 [rows], where it was asked for: of the distribution over next tokens
};

ResponseScores score_responses(const HeadInput& input, bool with_entropy);

// The same in steps, for a vocabulary that ranks divide: the log-sum-exps over this part and the logits of
// the targets, 0 where another rank has them; and the scores from what those are over the whole vocabulary.
struct PartialScores {
  at::Tensor lse, target_logits;  // float32 [rows]
};
PartialScores score_part(const HeadInput& input);
ResponseScores scores_from(const HeadInput& input, const PartialScores& whole);

// Adds the gradients of sum(by_response * log_probs) to those of the matrix and the bias (where defined), and
// returns that of the hidden states. The logits are computed again, chunk by chunk; over several chunks a
// matrix gradient of 16 bits is summed in float32 beside it.
at::Tensor score_responses_backward(const HeadInput& input, const at::Tensor& lse,
                                    const at::Tensor& by_response, at::Tensor matrix_gradient,
                                    at::Tensor bias_gradient);

}  // namespace dpo::ops
