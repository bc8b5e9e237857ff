// Declares the parts that layers of all families are made of.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model.h"
#include "ops/qkv.h"

namespace dpo::model {

// Computes x times NAME.weight, plus NAME.bias if the block has one.
at::Tensor linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x);

// Applies linear() to the same x with several matrices.
std::vector<at::Tensor> linear_each(const BlockWeights& weights, const std::vector<std::string>& names,
                                    const at::Tensor& x);

// Applies linear() with a matrix whose input dimension is split over tensor-parallel ranks (Megatron's
// RowParallelLinear). Each rank computes a summand, and the result is their sum.
at::Tensor row_parallel_linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x);

// Normalize the hidden states. The tensor-parallel part of a layer begins at the result.
at::Tensor layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      double epsilon);
at::Tensor rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    double epsilon);

// Result of the norm of x + residual; `x` is that sum. Without a residual (undefined) it is x unchanged: a
// layer that uses it for its residual connection gets both gradients in one pass over memory.
struct Normed {
  at::Tensor x, norm;
};
Normed add_layer_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                      const at::Tensor& residual, double epsilon);
Normed add_rms_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                    const at::Tensor& residual, double epsilon);

// Two layer norms of the same x, for a parallel residual.
struct TwoNorms {
  at::Tensor x, first, second;
};
TwoNorms two_layer_norms(const BlockWeights& weights, const std::string& first, const std::string& second,
                         const at::Tensor& x, double epsilon);

// Normalizes each head. Tensor-parallel ranks have different heads.
at::Tensor head_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     double epsilon);

// Applies RMSNorm to a tensor that every tensor-parallel rank has whole and uses in the same way, such as the
// output of attention or MLP.
at::Tensor output_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                       double epsilon);

// Applies RMSNorm over all heads together. x, [tokens, elements], has the heads of this tensor-parallel rank;
// `width` is the number of elements on all ranks.
at::Tensor wide_norm(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                     std::int64_t width, double epsilon);

// Returns activation(linear(x)).
at::Tensor activated_linear(const BlockWeights& weights, const std::string& name, const at::Tensor& x,
                            Activation activation);

// Returns activation(gate) * up.
at::Tensor gated_activation(const ModelConfig& config, const at::Tensor& gate, const at::Tensor& up);

// Projects x to queries, keys and values, [tokens, heads, head_dim]. The matrices may be fused into one.
using ops::Heads;
Heads project_heads(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x);

// Computes attention, with rotary embeddings if the layer has them, and its output projection.
at::Tensor rotary_attention(const ModelConfig& config, const BlockWeights& weights, const Heads& heads,
                            const Context& context);

// Compute attention from a layer's input: without norms of queries and keys; with norms of each head, if the
// block has them; or with norms over all heads together.
at::Tensor self_attention(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                          const Context& context);
at::Tensor head_normed_attention(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                                 const Context& context);
at::Tensor wide_normed_attention(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x,
                                 const Context& context);

// Returns down(activation(gate(x)) * up(x)). `gate` and `up` may be fused into one matrix.
at::Tensor gated_mlp(const ModelConfig& config, const BlockWeights& weights, const at::Tensor& x);

// Applies rotary position embedding to queries or keys, if the layer has it.
at::Tensor apply_rotary(const ModelConfig& config, const at::Tensor& x, const Context& context);

// Splits the output of a fused matmul into queries, keys and values, with rotary position embedding.
// Overwrites `qkv`. `by_head`: the query, key and value of a head are adjacent.
Heads rotated_heads(const ModelConfig& config, const at::Tensor& qkv, bool by_head, const Context& context);

// Reshapes [tokens, heads * head_dim] to [tokens, heads, head_dim].
at::Tensor split_heads(const ModelConfig& config, const at::Tensor& x);

}  // namespace dpo::model
