#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// The sums of a matrix's columns, added in float32 or better: in the matrix's dtype, or in another one. On a
// GPU they are added in a fixed order by a kernel of our own, since LibTorch's reads a tall matrix at a
// fraction of the memory's speed. Not differentiable.
at::Tensor column_sums(const at::Tensor& matrix);
at::Tensor column_sums(const at::Tensor& matrix, at::ScalarType dtype);

}  // namespace dpo::ops
