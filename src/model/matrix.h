#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "ops/linear.h"

namespace dpo::model {

// A matrix that tokens are multiplied by. It is dense; a quantized one, or one with an adapter, would be
// another kind of it, which linear() handles and families do not see.
struct Matrix {
  at::Tensor weight;                           // [out, in], as in nn.Linear
  bool transposed = false;                     // [in, out], as in GPT-2's Conv1D
  std::shared_ptr<ops::GradientSum> sum = {};  // of its gradient, if it is trained
};

// x times the matrix, plus the bias if it is defined.
at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias = {});

}  // namespace dpo::model
