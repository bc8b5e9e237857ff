#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Returns the sums of a matrix's columns, in the matrix's dtype or in `dtype`. They are added in float32 or
// better. On a GPU our own kernel adds them in a fixed order: LibTorch's reads a tall matrix at a fraction of
// the memory bandwidth. Not differentiable.
at::Tensor column_sums(const at::Tensor& matrix);
at::Tensor column_sums(const at::Tensor& matrix, at::ScalarType dtype);

}  // namespace dpo::ops
