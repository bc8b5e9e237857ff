#pragma once

#include <ATen/core/Tensor.h>

#include "ops/segments.h"

namespace dpo::ops {

// The result of attention over some keys, in a form that can be merged with that over other keys.
struct AttentionOutput {
  at::Tensor out;  // [tokens, heads, head_dim]
  at::Tensor lse;  // [heads, tokens], float32 or better: the log-sum-exp of the scores
};

struct AttentionGradients {
  at::Tensor q, k, v;
};

// How scores become weights, and how far back a query sees.
struct AttentionOptions {
  double scale = 1;         // of the products of queries and keys
  double soft_cap = 0;      // c * tanh(score / c) before the softmax; 0: none
  std::int64_t window = 0;  // of causal attention: the last so many keys, its own included; 0: all
};

// Queries of segment i attend to the keys of segment i: to all of them, or if `causal` to those up to their
// own position, where the last query of a segment is at the position of its last key (and no segment has more
// queries than keys). q is [tokens, heads, head_dim]; k and v may have fewer
// heads, each of which serves a group of adjacent heads of q. A query without keys gets zeros and an lse of
// -inf. Autograd does not see it: see attend_backward().
AttentionOutput attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Segments& queries,
                       const Segments& keys, bool causal, const AttentionOptions& options);

// The part of the gradients that comes from these keys. `total` is the merged attention over all keys.
AttentionGradients attend_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const AttentionOutput& total, const Segments& queries,
                                   const Segments& keys, bool causal, const AttentionOptions& options);

// Makes `one` the attention over its keys and those of `other`.
void merge(AttentionOutput& one, const AttentionOutput& other);

}  // namespace dpo::ops
