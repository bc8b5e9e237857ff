// The implementations of attend() and attend_backward(), one for each kind of device and precision.
#pragma once

#include "ops/attention.h"

namespace dpo::ops {

struct AttentionCall {
  at::Tensor q, k, v;
  const Segments& queries;
  const Segments& keys;
  bool causal;
  double scale;

  std::int64_t groups() const { return q.size(1) / k.size(1); }
};

AttentionOutput attend_cpu(const AttentionCall& call);
AttentionGradients attend_cpu_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                       const AttentionOutput& total);

// CUDA in bfloat16 and float16.
AttentionOutput attend_flash(const AttentionCall& call);
AttentionGradients attend_flash_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                         const AttentionOutput& total);

// CUDA in float32.
AttentionOutput attend_efficient(const AttentionCall& call);
AttentionGradients attend_efficient_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                             const AttentionOutput& total);

}  // namespace dpo::ops
