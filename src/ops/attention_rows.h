// The softmax of attention on the CPU and its gradient, between the matrix products: one pass over each row.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// How many keys, from the first, a row of scores may attend to. Rows are ordered by query, then by the
// `group` heads that share a key head.
struct AttentionMask {
  std::int64_t first_query = 0;
  std::int64_t group = 1;
  bool causal = false;

  std::int64_t keys(std::int64_t row, std::int64_t all) const {
    return causal ? std::min(all, first_query + row / group + 1) : all;
  }
};

// scores is [heads, rows, keys], float32 or float64 and contiguous. In place: each row becomes the softmax of
// scale times its unmasked scores, and 0 elsewhere. lse, [heads, rows], receives the log-sum-exp.
void softmax_rows(const at::Tensor& scores, const AttentionMask& mask, double scale, const at::Tensor& lse);

// Recomputes the softmax from a known lse, and turns `grads`, the gradient of each attention weight, into
// that of each product of query and key. `delta`, [heads, rows], is the sum of weight times gradient over the
// row.
void softmax_rows_backward(const at::Tensor& scores, const at::Tensor& grads, const AttentionMask& mask,
                           double scale, const at::Tensor& lse, const at::Tensor& delta);

}  // namespace dpo::ops
