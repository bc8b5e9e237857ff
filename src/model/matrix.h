#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "ops/linear.h"

namespace dpo::model {

// Sets elements to zero with this probability, and scales the others so that the mean stays. Which ones
// follows from the seed, so that a layer that is recomputed drops the same.
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;
};

// LoRA of a matrix: a product with it gets scale * b (a x) added.
struct Lora {
  at::Tensor a;  // [r, in]
  at::Tensor b;  // [out, r]
  double scale = 1;
  at::Tensor magnitude = {};  // [out], with DoRA: the norms that the rows of the sum are scaled to
  Dropout dropout = {};       // of the x that `a` multiplies
  std::shared_ptr<comm::Group> input_group = {};  // of the ranks that split the inputs; null if none do
};

// A matrix that tokens are multiplied by.
struct Matrix {
  at::Tensor weight;                           // [out, in], as in nn.Linear
  bool transposed = false;                     // [in, out], as in GPT-2's Conv1D
  std::shared_ptr<ops::GradientSum> sum = {};  // of its gradient, if it is trained
  std::optional<Lora> lora = {};
  bool fp8 = false;  // products in 8-bit floats; see ops::linear
};

// x times the matrix, plus the bias if it is defined. With LoRA, x is [tokens, in].
at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias = {});

// The products of x with several matrices, each plus its bias if that is defined. Where all have LoRA, x is
// multiplied by all their `a` at once, forward and backward.
std::vector<at::Tensor> linear_each(const at::Tensor& x, const std::vector<Matrix>& matrices,
                                    const std::vector<at::Tensor>& biases);

// The matrix with its LoRA in one, in its own order of dimensions, in float32.
at::Tensor merged(const Matrix& matrix);

// The norm of each row of the matrix [out, in] with its LoRA, without DoRA's scaling, in float32. Outside
// autograd.
at::Tensor row_norms(const Matrix& matrix);

}  // namespace dpo::model
