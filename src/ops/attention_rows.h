// Rows of attention's scores on the CPU: what lies between its products of matrices, one pass each.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Which keys a row of scores may look at, where rows are `group` heads for each query behind each other.
struct Visible {
  std::int64_t first_query = 0;
  std::int64_t group = 1;
  bool causal = false;

  std::int64_t keys(std::int64_t row, std::int64_t all) const {
    return causal ? std::min(all, first_query + row / group + 1) : all;
  }
};

// scores is [heads, rows, keys], float32 or float64 and contiguous. Each row becomes the softmax of scale
// times its visible scores, and 0 elsewhere; lse, [heads, rows], becomes the logarithm of its denominator.
void soften(const at::Tensor& scores, const Visible& visible, double scale, const at::Tensor& lse);

// The same softmax for a known lse, and its derivative: grads, the gradient of each weight, becomes that of
// each product of query and key. `share`, [heads, rows], is the sum of weight times gradient over the row.
void differentiate_softmax(const at::Tensor& scores, const at::Tensor& grads, const Visible& visible,
                           double scale, const at::Tensor& lse, const at::Tensor& share);

}  // namespace dpo::ops
