#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "ops/segments.h"

namespace dpo::ops {

// The order of a forest's tokens: those of all prompts, then those of all responses.
struct ForestLayout {
  Segments sequences;  // every prompt and every response: each attends to itself, causally
  Segments branches;   // the responses of each tree, counted from the first response token ...
  Segments prompts;    // ... which attend to all of that tree's prompt

  std::int64_t prompt_tokens() const { return prompts.tokens(); }
  std::int64_t response_tokens() const { return branches.tokens(); }
};

// Causal attention of every token within its sequence; a response's sequence includes its prompt.
// q is [tokens, heads, head_dim]; k and v may have fewer heads (grouped). Differentiable.
at::Tensor forest_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::shared_ptr<const ForestLayout>& layout, double scale);

}  // namespace dpo::ops
