// Attention in float32 on CUDA: LibTorch's memory-efficient attention over packed segments. Its log-sum-exp
// is padded per segment, and it has no grouped-query attention.
#include <limits>

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_kernels.h"
#include "ops/deterministic.h"

namespace dpo::ops {
namespace {

enum MaskType : std::int64_t { kNoMask = 0, kCausal = 1 };

constexpr std::int64_t kLsePadding = 32;

// The segment of each token, and the token's position in it.
struct TokenIndex {
  at::Tensor segment, position;
};

TokenIndex token_index(const Segments& segments, const at::Tensor& like) {
  const at::Tensor starts = segments.device_starts.to(at::kLong);
  const at::Tensor lengths = starts.narrow(0, 1, segments.count()) - starts.narrow(0, 0, segments.count());
  const at::Tensor segment = at::repeat_interleave(lengths, std::optional(segments.tokens()));
  const at::Tensor all = at::arange(segments.tokens(), like.options().dtype(at::kLong));
  return {segment, all - starts.index_select(0, segment)};
}

at::Tensor per_head(const at::Tensor& x, std::int64_t groups) {
  return (groups == 1 ? x : x.repeat_interleave(groups, 1)).unsqueeze(0);
}

at::Tensor per_group(const at::Tensor& x, std::int64_t groups) {
  return groups == 1 ? x.squeeze(0) : x.squeeze(0).unflatten(1, {-1, groups}).sum(2);
}

}  // namespace

AttentionOutput attend_efficient(const AttentionCall& call) {
  const auto result = at::_efficient_attention_forward(
      call.q.unsqueeze(0), per_head(call.k, call.groups()), per_head(call.v, call.groups()), /*bias=*/{},
      call.queries.device_starts, call.keys.device_starts, call.queries.longest, call.keys.longest,
      /*dropout_p=*/0, call.causal ? kCausal : kNoMask, /*compute_log_sumexp=*/true, call.options.scale);
  const TokenIndex tokens = token_index(call.queries, call.q);
  const at::Tensor lse = std::get<1>(result).transpose(1, 2).index({tokens.segment, tokens.position});
  return {std::get<0>(result).squeeze(0), lse.t().contiguous()};
}

AttentionGradients attend_efficient_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                             const AttentionOutput& total) {
  const TokenIndex tokens = token_index(call.queries, call.q);
  const std::int64_t longest = (call.queries.longest + kLsePadding - 1) / kLsePadding * kLsePadding;
  const at::Tensor lse = at::full({call.queries.count(), longest, call.q.size(1)},
                                  std::numeric_limits<double>::infinity(), total.lse.options());
  lse.index_put_({tokens.segment, tokens.position}, total.lse.t());
  const at::Tensor no_dropout = at::zeros({}, call.q.options().dtype(at::kLong));
  const Deterministic in_this_call;
  const auto result = at::_efficient_attention_backward(
      grad_out.unsqueeze(0), call.q.unsqueeze(0), per_head(call.k, call.groups()),
      per_head(call.v, call.groups()), /*bias=*/{}, total.out.unsqueeze(0), call.queries.device_starts,
      call.keys.device_starts, call.queries.longest, call.keys.longest, lse.transpose(1, 2).contiguous(),
      /*dropout_p=*/0, no_dropout, no_dropout, call.causal ? kCausal : kNoMask, /*bias_requires_grad=*/false,
      call.options.scale);
  return {std::get<0>(result).squeeze(0), per_group(std::get<1>(result), call.groups()),
          per_group(std::get<2>(result), call.groups())};
}

}  // namespace dpo::ops
