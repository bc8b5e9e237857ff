#include "ops/attention.h"

#include <limits>

#include <ATen/ops/logaddexp.h>
#include <ATen/ops/tensor.h>

#include "ops/attention_kernels.h"
#include "ops/fused.h"
#include "ops/upload.h"

namespace dpo::ops {
namespace {

constexpr double kNoKeys = -std::numeric_limits<double>::infinity();

// Returns the queries whose segment of keys is empty. Kernels disagree about their results.
at::Tensor queries_without_keys(const AttentionCall& call) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i + 1 < call.keys.starts.size(); ++i)
    if (call.keys.starts[i] == call.keys.starts[i + 1])
      for (std::int32_t t = call.queries.starts[i]; t < call.queries.starts[i + 1]; ++t) found.push_back(t);
  return found.empty() ? at::Tensor() : upload(at::tensor(found, at::kLong), call.q.device());
}

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

// LibTorch's GPU kernels have no soft cap. Its memory-efficient one, used for float32, has no window in its
// backward pass and needs heads that are multiples of 16 bytes.
bool needs_matmuls(const AttentionCall& call) {
  constexpr std::int64_t kElements = 4;  // in 16 bytes
  const bool is_efficient = call.options.window == 0 && call.q.size(2) % kElements == 0;
  return call.q.is_cpu() || call.options.soft_cap > 0 || (!is_half(call.q) && !is_efficient);
}

}  // namespace

AttentionOutput attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Segments& queries,
                       const Segments& keys, bool causal, const AttentionOptions& options) {
  const AttentionCall call{q, k, v, queries, keys, causal, options};
  AttentionOutput result = needs_matmuls(call) ? attend_by_matmuls(call)
                           : is_half(q)        ? attend_flash(call)
                                               : attend_efficient(call);
  if (const at::Tensor no_keys = queries_without_keys(call); no_keys.defined()) {
    result.out.index_fill_(0, no_keys, 0);
    result.lse.index_fill_(1, no_keys, kNoKeys);
  }
  return result;
}

AttentionGradients attend_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const AttentionOutput& total, const Segments& queries,
                                   const Segments& keys, bool causal, const AttentionOptions& options) {
  const AttentionCall call{q, k, v, queries, keys, causal, options};
  AttentionGradients result = needs_matmuls(call) ? attend_by_matmuls_backward(call, grad_out, total)
                              : is_half(q)        ? attend_flash_backward(call, grad_out, total)
                                                  : attend_efficient_backward(call, grad_out, total);
  if (const at::Tensor no_keys = queries_without_keys(call); no_keys.defined())
    result.q.index_fill_(0, no_keys, 0);
  return result;
}

void merge(AttentionOutput& one, const AttentionOutput& other) {
  if (fused::supports_merge(one, other)) return fused::merge(one, other);
  const at::Tensor lse = at::logaddexp(one.lse, other.lse);
  const auto weight = [&lse](const AttentionOutput& part) {
    return (part.lse - lse).exp_().t().unsqueeze(-1);
  };
  one.out.mul_(weight(one)).addcmul_(other.out, weight(other));
  one.lse.copy_(lse);
}

}  // namespace dpo::ops
