// Attention in bfloat16 and float16 on CUDA: LibTorch's flash attention over packed segments. This needs only
// LibTorch's headers, so it compiles without CUDA too.
#include <algorithm>

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_kernels.h"
#include "ops/deterministic.h"

namespace dpo::ops {
namespace {

// Pads the head dimension with zeros to a multiple of 8, as the kernels require. Zeros do not change the
// result.
at::Tensor padded(const at::Tensor& x) {
  const std::int64_t rest = x.size(-1) % 8;
  return rest == 0 ? x : at::pad(x, {0, 8 - rest});
}

at::Tensor unpadded(const at::Tensor& x, std::int64_t head_dim) {
  return x.size(-1) == head_dim ? x : x.narrow(-1, 0, head_dim).contiguous();
}

std::optional<std::int64_t> keys_before(const AttentionCall& call) {
  return call.options.window > 0 ? std::optional(call.options.window - 1) : std::nullopt;
}

std::optional<std::int64_t> keys_after(const AttentionCall& call) {
  return call.options.window > 0 ? std::optional<std::int64_t>(0) : std::nullopt;
}

}  // namespace

AttentionOutput attend_flash(const AttentionCall& call) {
  // LibTorch takes a maximum of 1 to mean exactly one query per segment, but a segment may have none.
  const std::int64_t longest = std::max<std::int64_t>(call.queries.longest, 2);
  const auto result =
      at::_flash_attention_forward(padded(call.q), padded(call.k), padded(call.v), call.queries.device_starts,
                                   call.keys.device_starts, longest, call.keys.longest,
                                   /*dropout_p=*/0, call.causal, /*return_debug_mask=*/false,
                                   call.options.scale, keys_before(call), keys_after(call));
  return {unpadded(std::get<0>(result), call.q.size(-1)), std::get<1>(result)};
}

AttentionGradients attend_flash_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                         const AttentionOutput& total) {
  const at::Tensor no_dropout = at::zeros({2}, call.q.options().dtype(at::kUInt64));
  const Deterministic in_this_call;
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      padded(grad_out), padded(call.q), padded(call.k), padded(call.v), padded(total.out),
      total.lse.contiguous(), call.queries.device_starts, call.keys.device_starts, call.queries.longest,
      call.keys.longest, /*dropout_p=*/0, call.causal, no_dropout, at::Tensor(), call.options.scale,
      keys_before(call), keys_after(call));
  const std::int64_t head_dim = call.q.size(-1);
  return {unpadded(dq, head_dim), unpadded(dk, head_dim), unpadded(dv, head_dim)};
}

}  // namespace dpo::ops
