// Declares the implementations of attend() and attend_backward(), one per kind of device and precision.
#pragma once

#include "ops/attention.h"

namespace dpo::ops {

struct AttentionCall {
  at::Tensor q, k, v;
  const Segments& queries;
  const Segments& keys;
  bool causal;
  AttentionOptions options;

  std::int64_t groups() const { return q.size(1) / k.size(1); }
};

// Used on the CPU. Other devices use it for soft caps and for windows in float32.
AttentionOutput attend_by_matmuls(const AttentionCall& call);
AttentionGradients attend_by_matmuls_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                              const AttentionOutput& total);

// Used on CUDA in bfloat16 and float16.
AttentionOutput attend_flash(const AttentionCall& call);
AttentionGradients attend_flash_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                         const AttentionOutput& total);

// Used on CUDA in float32 without a window.
AttentionOutput attend_efficient(const AttentionCall& call);
AttentionGradients attend_efficient_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                             const AttentionOutput& total);

}  // namespace dpo::ops
