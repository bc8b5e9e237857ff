#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "ops/attention.h"
#include "ops/segments.h"
#include "ops/tree_tiles.h"
#include "ops/upload.h"

namespace dpo::ops {

// Keys of attention within a window. Each prompt is one sequence. Each response is one sequence too: the last
// prompt tokens that its window reaches, then its own tokens.
struct WindowKeys {
  at::Tensor keys;    // int64: the token of each key
  Segments segments;  // one for each of ForestLayout::sequences
};

// The order of a forest's tokens: all prompts, then all responses.
struct ForestLayout {
  Segments sequences;  // every prompt and every response; each attends to itself, causally
  Segments branches;   // the responses of each tree, counted from the first response token
  Segments prompts;    // the prompts of the trees; all tokens of a branch attend to its prompt

  TreeTensors trees;
  std::optional<WindowKeys> window;  // set if some sequence is longer than the model's window

  std::int64_t prompt_tokens() const { return prompts.tokens(); }
  std::int64_t response_tokens() const { return branches.tokens(); }
};

// Takes the arguments of make_tree_tiles(). The arrays of `others` are sent with the layout's, in one
// transfer.
ForestLayout make_layout(std::vector<std::int32_t> sequences, std::vector<std::int32_t> branches,
                         std::vector<std::int32_t> prompts, at::Device device, Uploads others = {});

WindowKeys make_window(const ForestLayout& layout, std::int64_t window);

// Computes causal attention of every token within its sequence; a response's sequence includes its prompt.
// options.window is ignored unless layout->window is set: otherwise no sequence is longer than the window. q
// is [tokens, heads, head_dim]; k and v may have fewer heads (grouped). Differentiable.
at::Tensor forest_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::shared_ptr<const ForestLayout>& layout, AttentionOptions options);

}  // namespace dpo::ops
