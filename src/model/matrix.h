#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "ops/linear.h"

namespace dpo::model {

// Sets elements to zero with this probability, and scales the others so that the mean stays the same. The
// seed decides which elements, so that a recomputed layer drops the same ones.
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;
};

// LoRA of a matrix, which adds scale * b (a x) to its output.
struct Lora {
  at::Tensor a;  // [r, in]
  at::Tensor b;  // [out, r]
  double scale = 1;
  at::Tensor magnitude = {};  // [out], with DoRA: the norms that the rows of the summed matrix are scaled to
  Dropout dropout = {};       // of the input of `a`
  std::shared_ptr<comm::Group> input_group = {};  // ranks that split the inputs; null if none do
};

// The weight of a linear layer, with its LoRA if it has one.
struct Matrix {
  at::Tensor weight;                           // [out, in], as in nn.Linear
  bool transposed = false;                     // [in, out], as in GPT-2's Conv1D
  std::shared_ptr<ops::GradientSum> sum = {};  // where its gradient is added, if it is trained
  std::optional<Lora> lora = {};
  bool fp8 = false;  // matmuls in FP8; see ops::linear
};

// Computes x times the matrix, plus the bias if it is defined. With LoRA, x is [tokens, in].
at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias = {});

// Applies several matrices to the same x, each with its bias if that is defined. Matrices with plain LoRA (no
// DoRA, no dropout) share one matmul of x with all their `a`, forward and backward.
std::vector<at::Tensor> linear_each(const at::Tensor& x, const std::vector<Matrix>& matrices,
                                    const std::vector<at::Tensor>& biases);

// Returns the matrix with its LoRA merged, in the matrix's own order of dimensions, in float32.
at::Tensor merged(const Matrix& matrix);

// Returns the norm of each row of the matrix [out, in] with its LoRA, without DoRA's scaling, in float32.
// Autograd does not record it.
at::Tensor row_norms(const Matrix& matrix);

}  // namespace dpo::model
