#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Where the gradient of a weight is summed: in the weight's dtype, or in float32.
struct GradientSum {
  at::Tensor tensor = {};  // undefined: nowhere
  // If set and true, the next summand replaces the values, and the flag becomes false.
  std::shared_ptr<bool> overwrite = {};

  void add(const at::Tensor& gradient);
  // The same for several different sums of one dtype, by few kernels on a GPU. Of undefined gradients nothing
  // is added.
  static void add_each(const std::vector<GradientSum*>& sums, const std::vector<at::Tensor>& gradients);
  // The tensor to add to, which is made zero first if the next summand would replace its values.
  const at::Tensor& to_add_to();
  // Adds a^T b, in one product where the device and the dtypes allow it.
  void add_product(const at::Tensor& a, const at::Tensor& b);

 private:
  bool take_overwrite() { return overwrite && std::exchange(*overwrite, false); }
};

// x, [rows, in], times the weight, [out, in] as in nn.Linear or [in, out] if `transposed`, plus the bias if
// it is defined. If `sum` has a tensor when the backward pass reaches it, the gradient of the weight is added
// there, and autograd sees none.
//
// `fp8`: the product and the gradient of x are computed in e4m3 with a scale for each row of x, of the
// gradient and of the weight in either direction (ops/fp8.h), if the weight's sizes allow it; the gradient of
// the weight as ever.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed,
                  const std::shared_ptr<GradientSum>& sum, bool fp8 = false);

}  // namespace dpo::ops
