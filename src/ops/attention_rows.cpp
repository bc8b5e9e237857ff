#include "ops/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/vector_loops.h"

namespace dpo::ops {
namespace {

// T is float or double; inlined, so that the loops are compiled for each instruction set.
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

template <class T>
void softmax_all(const at::Tensor& scores, const AttentionMask& mask, double scale, const at::Tensor& lse) {
  const std::int64_t rows = scores.size(1), keys = scores.size(2);
  T* row = scores.mutable_data_ptr<T>();
  T* sums = lse.mutable_data_ptr<T>();
  for (std::int64_t i = 0; i < scores.size(0) * rows; ++i, row += keys) {
    const std::int64_t seen = mask.keys(i % rows, keys);
    sums[i] = softmax_one(row, seen, static_cast<T>(scale));
    std::fill(row + seen, row + keys, T{0});
  }
}

template <class T>
void softmax_all_backward(const at::Tensor& scores, const at::Tensor& grads, const AttentionMask& mask,
                          double scale, const at::Tensor& lse, const at::Tensor& delta) {
  const std::int64_t rows = scores.size(1), keys = scores.size(2);
  T *row = scores.mutable_data_ptr<T>(), *grad = grads.mutable_data_ptr<T>();
  const T *sums = lse.const_data_ptr<T>(), *deltas = delta.const_data_ptr<T>();
  for (std::int64_t i = 0; i < scores.size(0) * rows; ++i, row += keys, grad += keys) {
    const std::int64_t seen = mask.keys(i % rows, keys);
    softmax_one_backward(row, grad, seen, static_cast<T>(scale), sums[i], deltas[i]);
    std::fill(row + seen, row + keys, T{0});
    std::fill(grad + seen, grad + keys, T{0});
  }
}

}  // namespace

void softmax_rows(const at::Tensor& scores, const AttentionMask& mask, double scale, const at::Tensor& lse) {
  if (scores.scalar_type() == at::kDouble) return softmax_all<double>(scores, mask, scale, lse);
  softmax_all<float>(scores, mask, scale, lse);
}

void softmax_rows_backward(const at::Tensor& scores, const at::Tensor& grads, const AttentionMask& mask,
                           double scale, const at::Tensor& lse, const at::Tensor& delta) {
  if (scores.scalar_type() == at::kDouble)
    return softmax_all_backward<double>(scores, grads, mask, scale, lse, delta);
  softmax_all_backward<float>(scores, grads, mask, scale, lse, delta);
}

}  // namespace dpo::ops
