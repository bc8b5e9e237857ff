#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "ops/segments.h"

namespace dpo::ops {

// How the tokens of a forest lie: those of all prompts, then those of all responses.
struct ForestLayout {
  Segments sequences;  // every prompt and every response: each looks at itself, causally
  Segments branches;   // of the responses' tokens alone, counted from 0, those of one tree together ...
  Segments prompts;    // ... which look back at the whole of that tree's prompt

  std::int64_t prompt_tokens() const { return prompts.tokens(); }
  std::int64_t response_tokens() const { return branches.tokens(); }
};

// Attention of every token to what stands before it in its own sequence, a response's prompt included.
// q is [tokens, heads, head_dim]; k and v may have fewer heads (grouped). Differentiable.
at::Tensor forest_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::shared_ptr<const ForestLayout>& layout, double scale);

}  // namespace dpo::ops
