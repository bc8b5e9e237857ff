// Attention by matmuls over a few queries of a segment at a time, so that memory stays linear in tokens. Used
// on the CPU, and for cases that LibTorch's GPU kernels do not support.
//
// LibTorch has flash attention for the CPU too, but in bfloat16 it compiles and caches a kernel for every new
// shape. Segments have as many lengths as texts do, so it kept compiling, and memory grew with every step.
#include <atomic>
#include <functional>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_kernels.h"
#include "ops/attention_rows.h"

namespace dpo::ops {
namespace {

struct Range {
  std::int64_t start = 0, length = 0;
};

Range range_of(const Segments& segments, std::int64_t i) {
  const auto index = static_cast<std::size_t>(i);
  return {segments.starts[index], segments.starts[index + 1] - segments.starts[index]};
}

// Calls work(i) for every segment. On the CPU each thread takes the next free one, because lengths differ
// widely.
void for_each_segment(const AttentionCall& call, const std::function<void(std::int64_t)>& work) {
  const std::int64_t count = call.queries.count();
  if (count == 1 || !call.q.is_cpu()) {  // then the matmuls themselves are parallel
    for (std::int64_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::int64_t> next = 0;
  at::parallel_for(0, std::min<std::int64_t>(count, at::get_num_threads()), 1,
                   [&](std::int64_t, std::int64_t) {
                     const at::NoGradGuard no_grad;
                     for (std::int64_t i = next++; i < count; i = next++) work(i);
                   });
}

// Returns the number of queries per block. On the CPU their scores stay in the cache.
std::int64_t queries_at_a_time(const AttentionCall& call) { return call.q.is_cpu() ? 64 : 1024; }

at::ScalarType computed_type(const at::Tensor& q) {
  return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Returns [tokens, heads, head_dim] as [kv_heads, tokens * group, head_dim] in the precision of the matmuls.
// For each token, the heads that share a key head are adjacent.
at::Tensor rows_of(const at::Tensor& x, Range range, std::int64_t kv_heads) {
  return x.narrow(0, range.start, range.length)
      .to(computed_type(x))
      .unflatten(1, {kv_heads, -1})
      .transpose(0, 1)
      .flatten(1, 2);
}

// Returns some tokens of `x`, [tokens, heads, head_dim], as a view, [kv_heads, tokens, group, head_dim].
at::Tensor view_of(const at::Tensor& x, Range range, std::int64_t kv_heads) {
  return x.narrow(0, range.start, range.length).unflatten(1, {kv_heads, -1}).transpose(0, 1);
}

// Returns some tokens of `lse`, [heads, tokens], as a view, [kv_heads, tokens, group].
at::Tensor lse_view_of(const at::Tensor& lse, Range range, std::int64_t kv_heads) {
  return lse.narrow(1, range.start, range.length).unflatten(0, {kv_heads, -1}).transpose(1, 2);
}

// Calls work(block of queries, keys that some of them may see, mask) for the queries of a segment.
template <class Work>
void for_each_block(const AttentionCall& call, Range queries, Range keys, const Work& work) {
  const std::int64_t most = queries_at_a_time(call), window = call.options.window;
  const std::int64_t before = keys.length - queries.length;  // keys before the first query's own
  for (std::int64_t start = 0; start < queries.length; start += most) {
    const Range block{start, std::min(most, queries.length - start)};
    Range seen{0, keys.length};
    if (call.causal) {
      const std::int64_t end = before + block.start + block.length;
      seen.start = window > 0 ? std::max<std::int64_t>(0, before + block.start + 1 - window) : 0;
      seen.length = end - seen.start;
    }
    work(block, seen, AttentionMask{before + block.start - seen.start, call.groups(), call.causal, window});
  }
}

void attend_segment(const AttentionCall& call, Range queries, Range keys, const AttentionOutput& result) {
  const std::int64_t kv_heads = call.k.size(1), group = call.groups();
  const at::Tensor q = rows_of(call.q, queries, kv_heads);
  const at::Tensor k = rows_of(call.k, keys, kv_heads), v = rows_of(call.v, keys, kv_heads);
  for_each_block(call, queries, keys, [&](Range block, Range seen, const AttentionMask& mask) {
    const auto visible = [&](const at::Tensor& x) { return x.narrow(1, seen.start, seen.length); };
    const at::Tensor scores =
        at::bmm(q.narrow(1, block.start * group, block.length * group), visible(k).transpose(1, 2));
    const at::Tensor lse = at::empty({kv_heads, block.length, group}, scores.options());
    softmax_rows(scores, mask, call.options, lse);
    const Range tokens{queries.start + block.start, block.length};
    view_of(result.out, tokens, kv_heads)
        .copy_(at::bmm(scores, visible(v)).unflatten(1, {block.length, group}));
    lse_view_of(result.lse, tokens, kv_heads).copy_(lse);
  });
}

void attend_segment_backward(const AttentionCall& call, Range queries, Range keys, const at::Tensor& grad_out,
                             const AttentionOutput& total, const AttentionGradients& result) {
  const std::int64_t kv_heads = call.k.size(1), group = call.groups();
  const at::Tensor q = rows_of(call.q, queries, kv_heads), grad = rows_of(grad_out, queries, kv_heads);
  const at::Tensor k = rows_of(call.k, keys, kv_heads), v = rows_of(call.v, keys, kv_heads);
  const at::Tensor delta = (grad * rows_of(total.out, queries, kv_heads)).sum(-1);
  const at::Tensor lse = lse_view_of(total.lse, queries, kv_heads).flatten(1);
  at::Tensor dk = at::zeros(k.sizes(), k.options()), dv = at::zeros(v.sizes(), v.options());
  for_each_block(call, queries, keys, [&](Range block, Range seen, const AttentionMask& mask) {
    const auto rows = [&](const at::Tensor& x) {
      return x.narrow(1, block.start * group, block.length * group);
    };
    const auto visible = [&](const at::Tensor& x) { return x.narrow(1, seen.start, seen.length); };
    const at::Tensor weights = at::bmm(rows(q), visible(k).transpose(1, 2));
    const at::Tensor grads = at::bmm(rows(grad), visible(v).transpose(1, 2));
    softmax_rows_backward(weights, grads, mask, call.options, rows(lse).contiguous(),
                          rows(delta).contiguous());
    visible(dv).baddbmm_(weights.transpose(1, 2), rows(grad));
    visible(dk).baddbmm_(grads.transpose(1, 2), rows(q));
    view_of(result.q, {queries.start + block.start, block.length}, kv_heads)
        .copy_(at::bmm(grads, visible(k)).unflatten(1, {block.length, group}));
  });
  view_of(result.k, keys, kv_heads).copy_(dk.unsqueeze(2));
  view_of(result.v, keys, kv_heads).copy_(dv.unsqueeze(2));
}

}  // namespace

AttentionOutput attend_by_matmuls(const AttentionCall& call) {
  const std::int64_t tokens = call.q.size(0), heads = call.q.size(1);
  AttentionOutput result{at::zeros({tokens, heads, call.q.size(2)}, call.q.options()),
                         at::full({heads, tokens}, -std::numeric_limits<double>::infinity(),
                                  call.q.options().dtype(computed_type(call.q)))};
  for_each_segment(call, [&](std::int64_t i) {
    const Range queries = range_of(call.queries, i), keys = range_of(call.keys, i);
    if (queries.length > 0 && keys.length > 0) attend_segment(call, queries, keys, result);
  });
  return result;
}

AttentionGradients attend_by_matmuls_backward(const AttentionCall& call, const at::Tensor& grad_out,
                                              const AttentionOutput& total) {
  AttentionGradients result{at::zeros(call.q.sizes(), call.q.options()),
                            at::zeros(call.k.sizes(), call.k.options()),
                            at::zeros(call.v.sizes(), call.v.options())};
  for_each_segment(call, [&](std::int64_t i) {
    const Range queries = range_of(call.queries, i), keys = range_of(call.keys, i);
    if (queries.length > 0 && keys.length > 0)
      attend_segment_backward(call, queries, keys, grad_out, total, result);
  });
  return result;
}

}  // namespace dpo::ops
