// The softmax of attention and its gradient, between the matrix products: on the CPU one pass over each row.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "ops/attention.h"

namespace dpo::ops {

// Which keys a row of scores may attend to. Rows are ordered by query, then by the `group` heads that share a
// key head.
struct AttentionMask {
  std::int64_t last_key = 0;  // of the first query, if `causal`; may be beyond the keys or before them
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

// scores is [heads, rows, keys], float32 or float64 and contiguous. In place: each row becomes the softmax of
// its unmasked scores, scaled and capped, and 0 elsewhere. lse, [heads, rows], receives the log-sum-exp.
void softmax_rows(const at::Tensor& scores, const AttentionMask& mask, const AttentionOptions& options,
                  const at::Tensor& lse);

// Recomputes the softmax from a known lse, and turns `grads`, the gradient of each attention weight, into
// that of each product of query and key. `delta`, [heads, rows], is the sum of weight times gradient over the
// row.
void softmax_rows_backward(const at::Tensor& scores, const at::Tensor& grads, const AttentionMask& mask,
                           const AttentionOptions& options, const at::Tensor& lse, const at::Tensor& delta);

}  // namespace dpo::ops
