// Kernels of our own (src/ops/cuda): one pass over memory where LibTorch's operators need several. Each
// returns false, having done nothing, for tensors that it does not know or in a program that was built
// without nvcc; the caller then goes the long way.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention.h"

namespace dpo::ops::fused {

// Whether this program was built with them.
bool has_kernels();

bool rotate(at::Tensor& out, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
            bool interleaved, float direction);

bool merge(Attended& one, const Attended& other);

// Updates of weights in float32 by gradients in float32 or 16 bits. The names are those of torch.optim, but
// for weight decay: `l2` goes into the gradient, `decoupled` into the weights.
struct AdamNumbers {
  double lr = 0, l2 = 0, decoupled = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  std::int64_t step = 1;
};
bool adam(at::Tensor& weights, const at::Tensor& gradients, at::Tensor& exp_avg, at::Tensor& exp_avg_sq,
          const AdamNumbers& numbers);

struct RmsPropNumbers {
  double lr = 0, l2 = 0, alpha = 0, epsilon = 0;
};
bool rmsprop(at::Tensor& weights, const at::Tensor& gradients, at::Tensor& square_avg,
             const RmsPropNumbers& numbers);

}  // namespace dpo::ops::fused
