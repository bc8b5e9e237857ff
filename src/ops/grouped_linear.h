#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Multiplies every row of x, [rows, in], by its group's matrix in `weights`, [groups, out, in]. Rows are
// sorted by group: group i ends before row ends[i], int32 [groups]. Groups may be empty.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& ends);

}  // namespace dpo::ops
