#pragma once

#include <ATen/core/Tensor.h>

#include "ops/segments.h"

namespace dpo::ops {

// Attention within pairs of segments, in a form whose results over different keys can be merged.
struct Attended {
  at::Tensor out;  // [tokens, heads, head_dim]
  at::Tensor lse;  // [heads, tokens], float32 or better: the logarithm of the softmax's denominator
};

struct AttentionGradients {
  at::Tensor q, k, v;
};

// Queries of segment i look at the keys of segment i: at all of them, or if `causal` (the segments are then
// of equal length) at those that are not behind them. q is [tokens, heads, head_dim]; k and v may have fewer
// heads, of which each serves a group of neighbouring heads of q. A query without keys gets zeros and a
// logarithm of -inf. Not differentiable by itself.
Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Segments& queries,
                const Segments& keys, bool causal, double scale);

// The part of the gradients that comes from these keys, where `total` is the attention over these and all
// other keys.
AttentionGradients attend_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const Attended& total, const Segments& queries,
                                   const Segments& keys, bool causal, double scale);

// Makes `one` the attention over its keys and those of `other`.
void merge(Attended& one, const Attended& other);

}  // namespace dpo::ops
