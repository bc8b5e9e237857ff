// Declares one CUDA kernel for attention over all trees of a forest (ops/cuda/trees.h), in bfloat16 for
// common head sizes. LibTorch needs a call for sequences, one for responses and their prompts, and a merge.
#pragma once

#include "ops/attention.h"
#include "ops/tree_tiles.h"

namespace dpo::ops::fused {

// True if this program has the kernels for a device: a GPU of compute capability 8.0 or newer.
bool has_tree_kernels(at::Device device);

// True if the kernels are the fastest even for long sequences without common prompts.
bool suits_long_sequences(const at::Tensor& q);

bool supports_trees(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TreeTensors& trees,
                    const AttentionOptions& options);
AttentionOutput attend_trees(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const TreeTensors& trees, const AttentionOptions& options);

// Returns whether a call that supports_trees() has gradients that the kernel can read.
bool supports_trees_backward(const at::Tensor& grad_out, const AttentionOutput& total);
// If q, k and v are parts of one matrix, so are their gradients.
AttentionGradients attend_trees_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const AttentionOutput& total,
                                         const TreeTensors& trees, const AttentionOptions& options);

}  // namespace dpo::ops::fused
