#include "ops/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/logsumexp.h>

#include "ops/vector_loops.h"

namespace dpo::ops {
namespace {

// T is float or double. The function is inlined, so that its loops are compiled for each instruction set.
template <class T>
[[gnu::always_inline]] inline T softmax_row(T* row, std::int64_t count, T scale) {
  T greatest[kLanes], sums[kLanes] = {};
  for (T& lane : greatest) lane = -std::numeric_limits<T>::infinity();
  const std::int64_t whole = count - count % kLanes;
  for (std::int64_t i = 0; i < count; ++i) row[i] *= scale;
  for (std::int64_t i = 0; i < whole; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l)
      greatest[l] = row[i + l] > greatest[l] ? row[i + l] : greatest[l];
  for (std::int64_t i = whole; i < count; ++i) greatest[0] = row[i] > greatest[0] ? row[i] : greatest[0];
  const T most = *std::max_element(greatest, greatest + kLanes);
  for (std::int64_t i = 0; i < whole; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) sums[l] += row[i + l] = exp_of(row[i + l] - most);
  for (std::int64_t i = whole; i < count; ++i) sums[0] += row[i] = exp_of(row[i] - most);
  T sum = 0;
  for (const T lane : sums) sum += lane;
  const T share = 1 / sum;
  for (std::int64_t i = 0; i < count; ++i) row[i] *= share;
  return most + std::log(sum);
}

template <class T>
[[gnu::always_inline]] inline void softmax_row_backward(T* scores, T* grads, std::int64_t count, T scale,
                                                        T lse, T delta) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T weight = exp_of(scale * scores[i] - lse);
    scores[i] = weight;
    grads[i] = scale * weight * (grads[i] - delta);
  }
}

DPO_FOR_EACH_CPU
float softmax_one(float* row, std::int64_t count, float scale) { return softmax_row(row, count, scale); }
double softmax_one(double* row, std::int64_t count, double scale) { return softmax_row(row, count, scale); }

DPO_FOR_EACH_CPU
void softmax_one_backward(float* scores, float* grads, std::int64_t count, float scale, float lse,
                          float delta) {
  softmax_row_backward(scores, grads, count, scale, lse, delta);
}
void softmax_one_backward(double* scores, double* grads, std::int64_t count, double scale, double lse,
                          double delta) {
  softmax_row_backward(scores, grads, count, scale, lse, delta);
}

// Computes c * tanh(scale * x / c).
template <class T>
void cap_row(T* row, std::int64_t count, T scale, T cap) {
  for (std::int64_t i = 0; i < count; ++i) row[i] = cap * std::tanh(scale * row[i] / cap);
}

// Turns the gradient of capped scores into the gradient of the dot products, given the capped scores.
template <class T>
void cap_row_backward(const T* capped, T* grads, std::int64_t count, T scale, T cap) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T slope = 1 - capped[i] / cap * (capped[i] / cap);
    grads[i] *= scale * slope;
  }
}

template <class T>
void softmax_all(const at::Tensor& scores, const AttentionMask& mask, const AttentionOptions& options,
                 const at::Tensor& lse) {
  const std::int64_t rows = scores.size(1), all = scores.size(2);
  const T scale = static_cast<T>(options.scale), cap = static_cast<T>(options.soft_cap);
  T* row = scores.mutable_data_ptr<T>();
  T* sums = lse.mutable_data_ptr<T>();
  for (std::int64_t i = 0; i < scores.size(0) * rows; ++i, row += all) {
    const auto [begin, end] = mask.keys(i % rows, all);
    if (cap > 0) cap_row(row + begin, end - begin, scale, cap);
    sums[i] = softmax_one(row + begin, end - begin, cap > 0 ? T{1} : scale);
    std::fill(row, row + begin, T{0});
    std::fill(row + end, row + all, T{0});
  }
}

template <class T>
void softmax_all_backward(const at::Tensor& scores, const at::Tensor& grads, const AttentionMask& mask,
                          const AttentionOptions& options, const at::Tensor& lse, const at::Tensor& delta) {
  const std::int64_t rows = scores.size(1), all = scores.size(2);
  const T scale = static_cast<T>(options.scale), cap = static_cast<T>(options.soft_cap);
  T *row = scores.mutable_data_ptr<T>(), *grad = grads.mutable_data_ptr<T>();
  const T *sums = lse.const_data_ptr<T>(), *deltas = delta.const_data_ptr<T>();
  std::vector<T> capped;
  for (std::int64_t i = 0; i < scores.size(0) * rows; ++i, row += all, grad += all) {
    const auto [begin, end] = mask.keys(i % rows, all);
    const std::int64_t count = end - begin;
    if (cap > 0) {
      cap_row(row + begin, count, scale, cap);
      capped.assign(row + begin, row + end);
    }
    softmax_one_backward(row + begin, grad + begin, count, cap > 0 ? T{1} : scale, sums[i], deltas[i]);
    if (cap > 0) cap_row_backward(capped.data(), grad + begin, count, scale, cap);
    for (T* each : {row, grad}) {
      std::fill(each, each + begin, T{0});
      std::fill(each + end, each + all, T{0});
    }
  }
}

// Other devices use LibTorch's operators. Returns true where a row may not attend.
at::Tensor masked_keys(const at::Tensor& scores, const AttentionMask& mask) {
  const auto options = scores.options().dtype(at::kLong);
  const at::Tensor last =
      at::arange(scores.size(1), options).floor_divide(mask.group).add_(mask.last_key).unsqueeze(1);
  const at::Tensor keys = at::arange(scores.size(2), options).unsqueeze(0);
  const at::Tensor after = keys > last;
  return mask.window > 0 ? after.logical_or(keys <= last - mask.window) : after;
}

at::Tensor scaled_and_capped(const at::Tensor& scores, const AttentionMask& mask,
                             const AttentionOptions& options) {
  scores.mul_(options.scale);
  if (options.soft_cap > 0) scores.div_(options.soft_cap).tanh_().mul_(options.soft_cap);
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  return mask.causal ? scores.masked_fill(masked_keys(scores, mask), kMasked) : scores.clone();
}

void softmax_by_operators(const at::Tensor& scores, const AttentionMask& mask,
                          const AttentionOptions& options, const at::Tensor& lse) {
  const at::Tensor unmasked = scaled_and_capped(scores, mask, options);
  lse.flatten(1).copy_(at::logsumexp(unmasked, -1));
  scores.copy_(unmasked.softmax(-1));
}

void softmax_by_operators_backward(const at::Tensor& scores, const at::Tensor& grads,
                                   const AttentionMask& mask, const AttentionOptions& options,
                                   const at::Tensor& lse, const at::Tensor& delta) {
  const at::Tensor weights = scaled_and_capped(scores, mask, options).sub_(lse.unsqueeze(-1)).exp_();
  grads.sub_(delta.unsqueeze(-1)).mul_(weights).mul_(options.scale);
  if (options.soft_cap > 0) grads.mul_(scores.div_(options.soft_cap).square_().neg_().add_(1));
  scores.copy_(weights);
}

}  // namespace

void softmax_rows(const at::Tensor& scores, const AttentionMask& mask, const AttentionOptions& options,
                  const at::Tensor& lse) {
  if (!scores.is_cpu()) return softmax_by_operators(scores, mask, options, lse);
  if (scores.scalar_type() == at::kDouble) return softmax_all<double>(scores, mask, options, lse);
  softmax_all<float>(scores, mask, options, lse);
}

void softmax_rows_backward(const at::Tensor& scores, const at::Tensor& grads, const AttentionMask& mask,
                           const AttentionOptions& options, const at::Tensor& lse, const at::Tensor& delta) {
  if (!scores.is_cpu()) return softmax_by_operators_backward(scores, grads, mask, options, lse, delta);
  if (scores.scalar_type() == at::kDouble)
    return softmax_all_backward<double>(scores, grads, mask, options, lse, delta);
  softmax_all_backward<float>(scores, grads, mask, options, lse, delta);
}

}  // namespace dpo::ops
