#pragma once

#include <ATen/core/Tensor.h>

#include "ops/segments.h"

namespace dpo::ops {

// The result of attention over some keys. merge() combines it with the result over other keys.
struct AttentionOutput {
  at::Tensor out;  // [tokens, heads, head_dim]
  at::Tensor lse;  // [heads, tokens], float32 or better: the log-sum-exp of the scores
};

struct AttentionGradients {
  at::Tensor q, k, v;
};

// Scaling and soft cap of scores, and the window of keys that a query sees.
struct AttentionOptions {
  double scale = 1;         // multiplies the scores
  double soft_cap = 0;      // c * tanh(score / c) before the softmax; 0: none
  std::int64_t window = 0;  // causal only: a query sees this many last keys, its own included; 0: all
};

// Queries of segment i attend to the keys of segment i. With `causal` a query attends only to keys up to its
// own position: the last query of a segment is at the position of its last key, and no segment has more
// queries than keys. q is [tokens, heads, head_dim]; k and v may have fewer heads, each of which serves a
// group of adjacent heads of q. A query without keys gets zeros and an lse of -inf. Not visible to autograd:
// use attend_backward().
AttentionOutput attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Segments& queries,
                       const Segments& keys, bool causal, const AttentionOptions& options);

// Returns the part of the gradients that comes from these keys. `total` is the merged attention over all
// keys.
AttentionGradients attend_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const AttentionOutput& total, const Segments& queries,
                                   const Segments& keys, bool causal, const AttentionOptions& options);

// Merges `other` into `one`, which becomes the attention over the keys of both.
void merge(AttentionOutput& one, const AttentionOutput& other);

}  // namespace dpo::ops
