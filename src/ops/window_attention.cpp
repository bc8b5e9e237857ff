#include "ops/window_attention.h"

#include <algorithm>

#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/tensor.h>

#include "ops/upload.h"

namespace dpo::ops {
namespace {

// Sums the gradients of all copies of a token in float32 or better. embedding_dense_backward() adds in a
// fixed order, also on a GPU.
at::Tensor sum_of_copies(const at::Tensor& gradient, const WindowKeys& window, const at::Tensor& like) {
  const at::Tensor wide = gradient.scalar_type() == at::kDouble ? gradient : gradient.to(at::kFloat);
  return at::embedding_dense_backward(wide.flatten(1), window.keys, like.size(0), /*padding_idx=*/-1,
                                      /*scale_grad_by_freq=*/false)
      .view(like.sizes())
      .to(like.scalar_type());
}

}  // namespace

WindowKeys make_window(const ForestLayout& layout, std::int64_t window) {
  std::vector<std::int64_t> keys;
  std::vector<std::int32_t> starts{0};
  const auto add = [&keys](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) keys.push_back(token);
  };
  const std::vector<std::int32_t>&prompts = layout.prompts.starts, &sequences = layout.sequences.starts;
  for (std::size_t p = 0; p + 1 < prompts.size(); ++p) {
    add(prompts[p], prompts[p + 1]);
    starts.push_back(prompts[p + 1]);
  }
  std::size_t tree = 0;
  for (std::size_t s = prompts.size() - 1; s + 1 < sequences.size(); ++s) {  // responses
    while (tree + 2 < prompts.size() && layout.branches.starts[tree + 1] <= sequences[s] - prompts.back())
      ++tree;
    add(std::max<std::int64_t>(prompts[tree], prompts[tree + 1] - (window - 1)), prompts[tree + 1]);
    add(sequences[s], sequences[s + 1]);
    starts.push_back(static_cast<std::int32_t>(keys.size()));
  }
  const at::Device device = layout.sequences.device_starts.device();
  return {upload(at::tensor(keys, at::kLong), device), make_segments(std::move(starts), device)};
}

AttentionOutput attend_window(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const ForestLayout& layout, const AttentionOptions& options) {
  const WindowKeys& window = *layout.window;
  return attend(q, k.index_select(0, window.keys), v.index_select(0, window.keys), layout.sequences,
                window.segments, /*causal=*/true, options);
}

AttentionGradients attend_window_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, const AttentionOutput& all,
                                          const ForestLayout& layout, const AttentionOptions& options) {
  const WindowKeys& window = *layout.window;
  const AttentionGradients found =
      attend_backward(grad, q, k.index_select(0, window.keys), v.index_select(0, window.keys), all,
                      layout.sequences, window.segments, /*causal=*/true, options);
  return {found.q, sum_of_copies(found.k, window, k), sum_of_copies(found.v, window, v)};
}

}  // namespace dpo::ops
