// Attention over all trees of a forest by one CUDA kernel (ops/cuda/trees.h), where LibTorch's need a call
// for sequences, one for responses and their prompts, and a merge. For bfloat16 and common sizes of heads.
#pragma once

#include "ops/attention.h"
#include "ops/tree_tiles.h"

namespace dpo::ops::fused {

// Whether this program has them for a device: a GPU of compute capability 8.0 or newer.
bool has_tree_kernels(at::Device device);

// Whether they are the fastest for these queries in long sequences without common prompts too.
bool suits_long_sequences(const at::Tensor& q);

// Returns false and does nothing if it does not support the call.
bool attend_trees(AttentionOutput& result, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const TreeTensors& trees, const AttentionOptions& options);

// If q, k and v are parts of one matrix, so are their gradients.
bool attend_trees_backward(AttentionGradients& result, const at::Tensor& grad_out, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v, const AttentionOutput& total,
                           const TreeTensors& trees, const AttentionOptions& options);

}  // namespace dpo::ops::fused
