#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention.h"
#include "ops/segments.h"

namespace dpo::ops {

// Keys and values of a generation step: the prompt that each sample continues, and the sample's own tokens,
// including the new one.
struct DecodeKeys {
  at::Tensor prompt_k, prompt_v;  // [prompt tokens, kv_heads, head_dim], from for_decoding()
  at::Tensor own_k, own_v;        // [samples, kv_heads, capacity, head_dim]
  std::int64_t own_tokens = 0;    // filled part of the capacity, the same for every sample
};

// Returns keys or values of prompts in the dtype and memory order that decoding reads fastest.
at::Tensor for_decoding(const at::Tensor& prompts);

// Computes attention of one token per sample. q and the result are [samples, heads, head_dim]. The samples of
// segment i of `samples` continue prompt i of `prompts`. Not differentiable.
at::Tensor decode_attention(const at::Tensor& q, const DecodeKeys& keys, const Segments& samples,
                            const Segments& prompts, const AttentionOptions& options);

}  // namespace dpo::ops
