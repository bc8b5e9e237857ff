// The parts that layers of all families are made of.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model.h"
#include "ops/qkv.h"

namespace dpo::model {

// x times NAME.weight, plus NAME.bias if the block has one.
at::Tensor linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x);

// The same for several matrices that multiply the same x.
std::vector<at::Tensor> linear_each(const BlockWeights& weights, const std::vector<std::string>& names,
                                    const at::Tensor& x);

// The same for a matrix whose input dimension tensor-parallel ranks split (Megatron's RowParallelLinear):
// each rank computes a summand, and the result is their sum.
at::Tensor row_parallel_linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x);

// Norms of the hidden states, after which the tensor-parallel part of a layer begins.
at::Tensor layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      double epsilon);
at::Tensor rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    double epsilon);

// The same of x + residual. Without a residual (undefined) x is x itself: a layer that uses it for its
// residual connection gets both gradients in one pass over memory.
struct Normed {
  at::Tensor x, norm;
};
Normed add_layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      const at::Tensor& residual, double epsilon);
Normed add_rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    const at::Tensor& residual, double epsilon);

// Two layer norms of the same x, which a parallel residual reads.
struct TwoNorms {
  at::Tensor x, first, second;
};
TwoNorms two_layer_norms(const BlockWeights& weights, const std::string& first, const std::string& second,
                         const at::Tensor& x, double epsilon);

// The norm of each head; tensor-parallel ranks have different heads.
at::Tensor head_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     double epsilon);

// The RMSNorm of something that tensor-parallel ranks have whole and do not use in different ways, such as
// the output of attention or MLP.
at::Tensor output_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                       double epsilon);

// The RMSNorm over all heads together, of which tensor-parallel ranks have different ones. x is
// [tokens, width], of `width` elements on all ranks.
at::Tensor wide_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     std::int64_t width, double epsilon);

// activation(linear(x)).
at::Tensor activated_linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                            Activation activation);

// activation(gate) * up.
at::Tensor gated_activation(const ModelConfig& config, const at::Tensor& gate, const at::Tensor& up);

// Queries, keys and values of a layer, [tokens, heads, head_dim]; the matrices may be fused into one.
using ops::Heads;
Heads project_heads(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x);

// Attention with rotary embeddings, if the layer has them, and its output projection.
at::Tensor rotary_attention(const ModelConfig& config, const BlockWeights& weights, const Heads& heads,
                            const Context& context);

// The same for a layer's input: without norms of queries and keys; with those of each head, if the block has
// them; or with norms of all heads together.
at::Tensor self_attention(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                          const Context& context);
at::Tensor head_normed_attention(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                                 const Context& context);
at::Tensor wide_normed_attention(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                                 const Context& context);

// down(activation(gate(x)) * up(x)); gate and up may be fused into one matrix.
at::Tensor gated_mlp(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x);

// Queries or keys with rotary position embedding.
at::Tensor apply_rotary(const ModelConfig& config, const at::Tensor& x, const Context& context);

// Queries, keys and values of the product of a fused matrix, with rotary position embedding. The product
// itself is overwritten. `by_head`: those of a head are adjacent.
Heads rotated_heads(const ModelConfig& config, const at::Tensor& qkv, bool by_head, const Context& context);

// [tokens, heads * head_dim] as [tokens, heads, head_dim].
at::Tensor split_heads(const ModelConfig& config, const at::Tensor& x);

}  // namespace dpo::model
