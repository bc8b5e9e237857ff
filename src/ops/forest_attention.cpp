#include "ops/forest_attention.h"

#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/fused_trees.h"
#include "ops/window_attention.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

bool has_both_parts(const ForestLayout& layout) {
  return layout.prompt_tokens() > 0 && layout.response_tokens() > 0;
}

// True if our kernel over trees, where it exists, is the fastest. For long sequences without common prompts
// LibTorch's flash attention is faster, unless ours uses Hopper's matmuls. Both were measured on an H200 only
// (docs/benchmarks.md).
bool suits_trees(const ForestLayout& layout, const at::Tensor& q) {
  constexpr std::int64_t kLong = 512;
  return has_both_parts(layout) || layout.sequences.longest <= kLong || fused::suits_long_sequences(q);
}

bool uses_trees(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const ForestLayout& layout,
                const AttentionOptions& options) {
  return suits_trees(layout, q) && fused::supports_trees(q, k, v, layout.trees, options);
}

// Holds layout and options in the autograd graph.
struct LayoutHolder : torch::CustomClassHolder {
  LayoutHolder(std::shared_ptr<const ForestLayout> held, const AttentionOptions& given)
      : layout(std::move(held)), options(given) {}
  std::shared_ptr<const ForestLayout> layout;
  AttentionOptions options;
};

AttentionOutput attend_forest(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const ForestLayout& layout, const AttentionOptions& options) {
  if (uses_trees(q, k, v, layout, options)) return fused::attend_trees(q, k, v, layout.trees, options);
  AttentionOutput all = attend(q, k, v, layout.sequences, layout.sequences, /*causal=*/true, options);
  if (!has_both_parts(layout)) return all;
  const std::int64_t prompts = layout.prompt_tokens(), responses = layout.response_tokens();
  AttentionOutput of_responses{all.out.narrow(0, prompts, responses), all.lse.narrow(1, prompts, responses)};
  merge(of_responses,
        attend(q.narrow(0, prompts, responses), k.narrow(0, 0, prompts), v.narrow(0, 0, prompts),
               layout.branches, layout.prompts, /*causal=*/false, options));
  return all;
}

AttentionGradients attend_forest_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, const AttentionOutput& all,
                                          const ForestLayout& layout, const AttentionOptions& options) {
  if (uses_trees(q, k, v, layout, options) && fused::supports_trees_backward(grad, all))
    return fused::attend_trees_backward(grad, q, k, v, all, layout.trees, options);
  AttentionGradients sum =
      attend_backward(grad, q, k, v, all, layout.sequences, layout.sequences, /*causal=*/true, options);
  if (!has_both_parts(layout)) return sum;
  const std::int64_t prompts = layout.prompt_tokens(), responses = layout.response_tokens();
  const auto responses_of = [&](const at::Tensor& x) { return x.narrow(0, prompts, responses); };
  const auto prompts_of = [&](const at::Tensor& x) { return x.narrow(0, 0, prompts); };
  const AttentionGradients more =
      attend_backward(responses_of(grad), responses_of(q), prompts_of(k), prompts_of(v),
                      {responses_of(all.out), all.lse.narrow(1, prompts, responses)}, layout.branches,
                      layout.prompts, /*causal=*/false, options);
  responses_of(sum.q).add_(more.q);
  prompts_of(sum.k).add_(more.k);
  prompts_of(sum.v).add_(more.v);
  return sum;
}

struct ForestAttention : torch::autograd::Function<ForestAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::shared_ptr<const ForestLayout>& layout,
                            const AttentionOptions& options) {
    const AttentionOutput all = options.window > 0 ? attend_window(q, k, v, *layout, options)
                                                   : attend_forest(q, k, v, *layout, options);
    ctx->save_for_backward({q, k, v, all.out, all.lse});
    ctx->saved_data["layout"] = c10::IValue::make_capsule(c10::make_intrusive<LayoutHolder>(layout, options));
    return all.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto capsule = ctx->saved_data["layout"].toCapsule();
    const auto& holder = static_cast<const LayoutHolder&>(*capsule);
    const auto attend_backward = holder.options.window > 0 ? attend_window_backward : attend_forest_backward;
    const AttentionGradients sum = attend_backward(grads[0].contiguous(), saved[0], saved[1], saved[2],
                                                   {saved[3], saved[4]}, *holder.layout, holder.options);
    return {sum.q, sum.k, sum.v, Variable(), Variable()};
  }
};

}  // namespace

ForestLayout make_layout(std::vector<std::int32_t> sequences, std::vector<std::int32_t> branches,
                         std::vector<std::int32_t> prompts, at::Device device, Uploads others) {
  ForestLayout layout;
  std::vector<Upload>& arrays = others.ints;
  TreeTiles trees;
  if (fused::has_tree_kernels(device)) {
    trees = make_tree_tiles(sequences, branches, prompts);
    arrays.push_back({trees.query_tiles, &layout.trees.query_tiles});
    arrays.push_back({trees.key_tiles, &layout.trees.key_tiles});
    arrays.push_back({trees.starts, &layout.trees.starts});
  }
  layout.sequences = make_segments(std::move(sequences));
  layout.branches = make_segments(std::move(branches));
  layout.prompts = make_segments(std::move(prompts));
  for (Segments* segments : {&layout.sequences, &layout.branches, &layout.prompts})
    arrays.push_back({segments->starts, &segments->device_starts});
  upload(others, device);
  return layout;
}

at::Tensor forest_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::shared_ptr<const ForestLayout>& layout, AttentionOptions options) {
  if (!layout->window) options.window = 0;
  return ForestAttention::apply(q, k, v, layout, options);
}

}  // namespace dpo::ops
