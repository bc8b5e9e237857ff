#include "ops/fused.h"

namespace dpo::ops::fused {

bool has_kernels() { return false; }

bool apply_rotary(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool, float) {
  return false;
}

bool merge(AttentionOutput&, const AttentionOutput&) { return false; }

bool adam(at::Tensor&, const at::Tensor&, at::Tensor&, at::Tensor&, const AdamArguments&) { return false; }

bool rmsprop(at::Tensor&, const at::Tensor&, at::Tensor&, const RmsPropArguments&) { return false; }

}  // namespace dpo::ops::fused
