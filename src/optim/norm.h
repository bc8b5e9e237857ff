#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::optim {

// The square root of the sum of squares, in float64, on the tensor's device.
at::Tensor norm_of(const at::Tensor& tensor);

}  // namespace dpo::optim
