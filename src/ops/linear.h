#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// The buffer that accumulates a weight's gradient, in the weight's dtype or in float32.
struct GradientSum {
  at::Tensor tensor = {};  // may be undefined
  // If set and true, the next gradient replaces the values, and the flag becomes false.
  std::shared_ptr<bool> overwrite = {};

  void add(const at::Tensor& gradient);
  // Adds gradients to several different sums of one dtype, with few kernels on a GPU. Skips undefined
  // gradients.
  static void add_each(const std::vector<GradientSum*>& sums, const std::vector<at::Tensor>& gradients);
  // Returns the tensor to add to. It is zeroed first if the next gradient would replace its values.
  const at::Tensor& to_add_to();
  // Adds a^T b, with one matmul where the device and the dtypes allow it.
  void add_matmul(const at::Tensor& a, const at::Tensor& b);

 private:
  bool take_overwrite() { return overwrite && std::exchange(*overwrite, false); }
};

// Multiplies x, [rows, in], by the weight, and adds the bias if it is defined. The weight is [out, in] as in
// nn.Linear, or [in, out] if `transposed`. If `sum` has a tensor when the backward pass reaches it, the
// weight gradient is added there, and autograd sees none.
//
// With `fp8`, and if the weight's sizes allow it, the forward matmul and the gradient of x are computed in
// e4m3 (ops/fp8.h). Rows of x, rows of the gradient, and rows or columns of the weight have one scale each.
// The weight gradient is computed in the usual dtype.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed,
                  const std::shared_ptr<GradientSum>& sum, bool fp8 = false);

}  // namespace dpo::ops
