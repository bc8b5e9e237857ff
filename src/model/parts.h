// What the layers of all families are made of.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace dpo::model {

// x times NAME.weight, plus NAME.bias where the block has one.
at::Tensor linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x);

// The same with a matrix that is stored [in, out].
at::Tensor linear_transposed(const BlockWeights& weights, const std::string& name, const at::Tensor& x);

// The same two for the matrices that lead back to the hidden states. Tensor-parallel ranks divide their
// inputs, so that each has a summand of the result.
at::Tensor summed_linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x);
at::Tensor summed_linear_transposed(const BlockWeights& weights, const std::string& name,
                                    const at::Tensor& x);

// Norms of the hidden states. What follows them is divided over tensor-parallel ranks.
at::Tensor layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      double epsilon);
at::Tensor rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    double epsilon);

// The norm of every head, of which tensor-parallel ranks hold different ones.
at::Tensor head_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     double epsilon);

at::Tensor activate(const at::Tensor& x, Activation activation);

// Queries or keys turned by their positions.
at::Tensor turned(const ModelConfig& config, const at::Tensor& x, const Context& context);

// [tokens, heads * head_dim] as [tokens, heads, head_dim].
at::Tensor split_heads(const ModelConfig& config, const at::Tensor& x);

}  // namespace dpo::model
