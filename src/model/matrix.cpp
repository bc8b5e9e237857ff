#include "model/matrix.h"

namespace dpo::model {

at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias) {
  return ops::linear(x, matrix.weight, bias, matrix.transposed, matrix.sum);
}

}  // namespace dpo::model
