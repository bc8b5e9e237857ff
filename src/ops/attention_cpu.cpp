// CPU: LibTorch's flash attention segment by segment, so that memory stays linear in tokens.
#include <atomic>
#include <functional>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_bodies.h"

namespace dpo::ops {
namespace {

struct Range {
  std::int64_t start = 0, length = 0;
};

Range range_of(const Segments& segments, std::int64_t i) {
  const auto index = static_cast<std::size_t>(i);
  return {segments.starts[index], segments.starts[index + 1] - segments.starts[index]};
}

// Calls work(i) for every segment, each thread taking the next one: their lengths differ widely.
void for_each_segment(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  if (count == 1) return work(0);  // then the kernel itself divides the work
  std::atomic<std::int64_t> next = 0;
  at::parallel_for(0, std::min<std::int64_t>(count, at::get_num_threads()), 1,
                   [&](std::int64_t, std::int64_t) {
                     const at::NoGradGuard no_grad;
                     for (std::int64_t i = next++; i < count; i = next++) work(i);
                   });
}

// As the kernel wants them, [kv_heads, group, tokens, head_dim]: a key head stands for its whole group
// without being copied.
at::Tensor grouped(const at::Tensor& x, Range range, std::int64_t kv_heads) {
  return x.narrow(0, range.start, range.length).unflatten(1, {kv_heads, -1}).permute({1, 2, 0, 3});
}

at::Tensor repeated(const at::Tensor& x, Range range, std::int64_t groups) {
  return x.narrow(0, range.start, range.length).permute({1, 0, 2}).unsqueeze(1).expand({-1, groups, -1, -1});
}

at::ScalarType lse_type(const at::Tensor& q) {
  return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

Attended attend_cpu(const AttentionCall& call) {
  const std::int64_t tokens = call.q.size(0), heads = call.q.size(1), kv_heads = call.k.size(1);
  Attended result{at::zeros({tokens, heads, call.q.size(2)}, call.q.options()),
                  at::full({heads, tokens}, -std::numeric_limits<double>::infinity(),
                           call.q.options().dtype(lse_type(call.q)))};
  for_each_segment(call.queries.count(), [&](std::int64_t i) {
    const Range queries = range_of(call.queries, i), keys = range_of(call.keys, i);
    if (queries.length == 0 || keys.length == 0) return;
    const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        grouped(call.q, queries, kv_heads), repeated(call.k, keys, call.groups()),
        repeated(call.v, keys, call.groups()), /*dropout_p=*/0, call.causal, /*attn_mask=*/{}, call.scale);
    grouped(result.out, queries, kv_heads).copy_(out);
    result.lse.narrow(1, queries.start, queries.length).view({kv_heads, -1, queries.length}).copy_(lse);
  });
  return result;
}

AttentionGradients attend_cpu_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                       const Attended& total) {
  const std::int64_t kv_heads = call.k.size(1);
  AttentionGradients result{at::zeros(call.q.sizes(), call.q.options()),
                            at::zeros(call.k.sizes(), call.k.options()),
                            at::zeros(call.v.sizes(), call.v.options())};
  for_each_segment(call.queries.count(), [&](std::int64_t i) {
    const Range queries = range_of(call.queries, i), keys = range_of(call.keys, i);
    if (queries.length == 0 || keys.length == 0) return;
    const at::Tensor lse =
        total.lse.narrow(1, queries.start, queries.length).unflatten(0, {kv_heads, -1}).contiguous();
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grouped(grad_out, queries, kv_heads), grouped(call.q, queries, kv_heads),
        repeated(call.k, keys, call.groups()), repeated(call.v, keys, call.groups()),
        grouped(total.out, queries, kv_heads), lse, /*dropout_p=*/0, call.causal, /*attn_mask=*/{},
        call.scale);
    grouped(result.q, queries, kv_heads).copy_(dq);
    result.k.narrow(0, keys.start, keys.length).copy_(dk.sum(1).transpose(0, 1));
    result.v.narrow(0, keys.start, keys.length).copy_(dv.sum(1).transpose(0, 1));
  });
  return result;
}

}  // namespace dpo::ops
