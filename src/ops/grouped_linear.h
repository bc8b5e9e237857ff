#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Every row of x, [rows, in], times the matrix of its group; `weights` are [groups, out, in]. The rows are
// sorted by group: those of group i end before row ends[i], int32 [groups], and a group may have none.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& ends);

}  // namespace dpo::ops
