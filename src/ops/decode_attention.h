#pragma once

#include <ATen/core/Tensor.h>

#include "ops/segments.h"

namespace dpo::ops {

// What the new tokens of a generation look at: the prompt that each sample continues, and the sample's own
// tokens, this one included.
struct DecodeKeys {
  at::Tensor prompt_k, prompt_v;  // [prompt tokens, kv_heads, head_dim], from kept_for_decoding()
  at::Tensor own_k, own_v;        // [samples, kv_heads, capacity, head_dim]
  std::int64_t own_tokens = 0;    // of the capacity, so many are filled, the same number for every sample
};

// Keys or values of prompts, as they are kept: the same numbers where they can be read fast.
at::Tensor kept_for_decoding(const at::Tensor& prompts);

// Attention of one token for each sample, q and the result [samples, heads, head_dim]. Samples i of `samples`
// stand together and continue prompt i of `prompts`. Not differentiable.
at::Tensor decode_attention(const at::Tensor& q, const DecodeKeys& keys, const Segments& samples,
                            const Segments& prompts, double scale);

}  // namespace dpo::ops
