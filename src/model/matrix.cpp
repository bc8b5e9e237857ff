#include "model/matrix.h"

#include <optional>

#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

namespace dpo::model {

at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias) {
  if (!matrix.transposed)
    return at::linear(x, matrix.weight, bias.defined() ? std::optional(bias) : std::nullopt);
  return bias.defined() ? at::addmm(bias, x, matrix.weight) : at::mm(x, matrix.weight);
}

}  // namespace dpo::model
