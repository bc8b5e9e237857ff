#include "ops/forest_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/attention.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

bool has_both_parts(const ForestLayout& layout) {
  return layout.prompt_tokens() > 0 && layout.response_tokens() > 0;
}

// Holds the layout in the autograd graph.
struct LayoutHolder : torch::CustomClassHolder {
  explicit LayoutHolder(std::shared_ptr<const ForestLayout> held) : layout(std::move(held)) {}
  std::shared_ptr<const ForestLayout> layout;
};

AttentionOutput attend_forest(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const ForestLayout& layout, double scale) {
  AttentionOutput all = attend(q, k, v, layout.sequences, layout.sequences, /*causal=*/true, scale);
  if (!has_both_parts(layout)) return all;
  const std::int64_t prompts = layout.prompt_tokens(), responses = layout.response_tokens();
  AttentionOutput of_responses{all.out.narrow(0, prompts, responses), all.lse.narrow(1, prompts, responses)};
  merge(of_responses,
        attend(q.narrow(0, prompts, responses), k.narrow(0, 0, prompts), v.narrow(0, 0, prompts),
               layout.branches, layout.prompts, /*causal=*/false, scale));
  return all;
}

struct ForestAttention : torch::autograd::Function<ForestAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::shared_ptr<const ForestLayout>& layout,
                            double scale) {
    const AttentionOutput all = attend_forest(q, k, v, *layout, scale);
    ctx->save_for_backward({q, k, v, all.out, all.lse});
    ctx->saved_data["layout"] = c10::IValue::make_capsule(c10::make_intrusive<LayoutHolder>(layout));
    ctx->saved_data["scale"] = scale;
    return all.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const AttentionOutput all{saved[3], saved[4]};
    const double scale = ctx->saved_data["scale"].toDouble();
    const auto holder = ctx->saved_data["layout"].toCapsule();
    const ForestLayout& layout = *static_cast<const LayoutHolder&>(*holder).layout;
    const at::Tensor grad = grads[0].contiguous();
    AttentionGradients sum =
        attend_backward(grad, q, k, v, all, layout.sequences, layout.sequences, /*causal=*/true, scale);
    if (has_both_parts(layout)) {
      const std::int64_t prompts = layout.prompt_tokens(), responses = layout.response_tokens();
      const auto responses_of = [&](const at::Tensor& x) { return x.narrow(0, prompts, responses); };
      const auto prompts_of = [&](const at::Tensor& x) { return x.narrow(0, 0, prompts); };
      const AttentionGradients more =
          attend_backward(responses_of(grad), responses_of(q), prompts_of(k), prompts_of(v),
                          {responses_of(all.out), all.lse.narrow(1, prompts, responses)}, layout.branches,
                          layout.prompts, /*causal=*/false, scale);
      responses_of(sum.q).add_(more.q);
      prompts_of(sum.k).add_(more.k);
      prompts_of(sum.v).add_(more.v);
    }
    return {sum.q, sum.k, sum.v, Variable(), Variable()};
  }
};

}  // namespace

at::Tensor forest_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::shared_ptr<const ForestLayout>& layout, double scale) {
  return ForestAttention::apply(q, k, v, layout, scale);
}

}  // namespace dpo::ops
