// Attention over a forest within a sliding window. A response attends to itself and to the end of its prompt
// in one call, so the keys and values of that end are copied for each response.
#pragma once

#include "ops/forest_attention.h"

namespace dpo::ops {

AttentionOutput attend_window(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const ForestLayout& layout, const AttentionOptions& options);

AttentionGradients attend_window_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, const AttentionOutput& all,
                                          const ForestLayout& layout, const AttentionOptions& options);

}  // namespace dpo::ops
