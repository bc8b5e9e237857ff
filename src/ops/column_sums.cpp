#include "ops/column_sums.h"

#include "ops/fused_layers.h"

namespace dpo::ops {

at::Tensor column_sums(const at::Tensor& matrix) { return column_sums(matrix, matrix.scalar_type()); }

at::Tensor column_sums(const at::Tensor& matrix, at::ScalarType dtype) {
  return fused::supports_column_sums(matrix, dtype) ? fused::column_sums(matrix, dtype)
                                                    : matrix.sum({0}, /*keepdim=*/false, dtype);
}

}  // namespace dpo::ops
