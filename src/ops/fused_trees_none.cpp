#include "ops/fused_trees.h"

namespace dpo::ops::fused {

bool has_tree_kernels(at::Device) { return false; }

bool suits_long_sequences(const at::Tensor&) { return false; }

bool attend_trees(AttentionOutput&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                  const TreeTensors&, const AttentionOptions&) {
  return false;
}

bool attend_trees_backward(AttentionGradients&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                           const at::Tensor&, const AttentionOutput&, const TreeTensors&,
                           const AttentionOptions&) {
  return false;
}

}  // namespace dpo::ops::fused
