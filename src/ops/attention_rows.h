// The softmax of attention scores and its gradient. The CPU makes one pass over each row.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "ops/attention.h"

namespace dpo::ops {

// The keys that each row of scores may attend to. Rows are ordered by query, then by the `group` heads that
// share a key head.
struct AttentionMask {
  std::int64_t last_key = 0;  // of the first query if `causal`; may be beyond the keys or before them
  std::int64_t group = 1;
  bool causal = false;
  std::int64_t window = 0;  // see AttentionOptions

  struct Keys {
    std::int64_t begin, end;
  };
  Keys keys(std::int64_t row, std::int64_t all) const {
    if (!causal) return {0, all};
    const std::int64_t end = last_key + row / group + 1;
    return {window > 0 ? std::max<std::int64_t>(0, end - window) : 0, std::min(all, end)};
  }
};

// Replaces each row of scores, in place, by the softmax of its scaled and capped scores; masked ones become
// 0. scores is [heads, rows, keys], contiguous float32 or float64. lse, [heads, rows], receives the
// log-sum-exp.
void softmax_rows(const at::Tensor& scores, const AttentionMask& mask, const AttentionOptions& options,
                  const at::Tensor& lse);

// Recomputes the softmax in `scores` from a known lse. Turns `grads` from the gradient of the attention
// weights into the gradient of the query-key dot products. `delta`, [heads, rows], is each row's sum of
// weight times gradient.
void softmax_rows_backward(const at::Tensor& scores, const at::Tensor& grads, const AttentionMask& mask,
                           const AttentionOptions& options, const at::Tensor& lse, const at::Tensor& delta);

}  // namespace dpo::ops
