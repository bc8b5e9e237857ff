// Log-softmax of rows of logits at their targets, and its gradient. Each block reads one row, once.
#include <type_traits>

#include "ops/cuda/sums.cuh"

namespace dpo::cuda {
namespace {

constexpr int kRowThreads = 512;
constexpr float kInfinity = __builtin_huge_valf();

// Calls action(column, pack) for all packs of a row: 16 bytes wide where the row is aligned.
template <class T, class Action>
__device__ void for_each_pack(T* row, int columns, const Action& action) {
  constexpr int kWidth = 16 / sizeof(T);
  const int offset = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % kWidth);
  const int begin = min(columns, (kWidth - offset) % kWidth), packs = (columns - begin) / kWidth;
#pragma unroll 4
  for (int i = threadIdx.x; i < packs; i += kRowThreads) {
    const int column = begin + i * kWidth;
    action(column, *pack_at<kWidth>(row + column));
  }
  for (int i = threadIdx.x; i < columns - packs * kWidth; i += kRowThreads) {
    const int column = i < begin ? i : i + packs * kWidth;
    action(column, *pack_at<1>(row + column));
  }
}

template <bool kCapped>
__device__ float capped(float x, float cap) {
  return kCapped ? cap * tanhf(x / cap) : x;
}

// Sums over a part of a row's logits x, relative to the largest of them.
template <bool kEntropy>
struct Sums {
  float largest = -kInfinity;
  float exps = 0;      // sum of exp(x - largest)
  float weighted = 0;  // sum of (x - largest) * exp(x - largest)

  // Returns the number to subtract from logits: the largest, or 0 if all so far are -inf. NaN is never the
  // largest, but makes the sum NaN.
  __device__ float base() const { return largest == -kInfinity ? 0 : largest; }

  __device__ void raise(float to) {
    const float before = largest;
    largest = to;
    const float shift = before - base(), factor = __expf(shift);
    if (kEntropy) weighted = factor > 0 ? (weighted + shift * exps) * factor : 0;
    exps *= factor;
  }

  template <int kCount>
  __device__ void add(const float (&x)[kCount]) {
    float top = largest;
#pragma unroll
    for (int i = 0; i < kCount; ++i) top = fmaxf(top, x[i]);
    raise(top);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float distance = x[i] - base(), e = __expf(distance);
      sum += e;
      if (kEntropy && e > 0) weighted += distance * e;
    }
    exps += sum;
  }

  __device__ void add(Sums other) {
    const float top = fmaxf(largest, other.largest);
    raise(top);
    other.raise(top);
    exps += other.exps;
    weighted += other.weighted;
  }

  __device__ void add_lanes(int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      add(Sums{__shfl_xor_sync(~0U, largest, distance), __shfl_xor_sync(~0U, exps, distance),
               __shfl_xor_sync(~0U, weighted, distance)});
  }
};

// Returns the sums of all threads, in thread 0, added in a fixed order.
template <bool kEntropy>
__device__ Sums<kEntropy> sum_of_block(Sums<kEntropy> sums) {
  constexpr int kWarps = kRowThreads / kWarp;
  __shared__ float largest[kWarps], exps[kWarps], weighted[kWarps];
  sums.add_lanes(kWarp);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (lane == 0) {
    largest[warp] = sums.largest;
    exps[warp] = sums.exps;
    weighted[warp] = sums.weighted;
  }
  __syncthreads();
  if (warp > 0) return sums;
  sums = lane < kWarps ? Sums<kEntropy>{largest[lane], exps[lane], weighted[lane]} : Sums<kEntropy>{};
  sums.add_lanes(kWarp);
  return sums;
}

template <bool kEntropy, bool kCapped, class T>
__global__ void __launch_bounds__(kRowThreads)
    score_kernel(const T* logits, LogitRows rows, RowResults results) {
  const std::int64_t r = blockIdx.x;
  const T* row = logits + r * rows.columns;
  Sums<kEntropy> own;
  for_each_pack(row, static_cast<int>(rows.columns), [&](int, const auto& pack) {
    constexpr int kCount = sizeof(pack) / sizeof(T);
    float x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = capped<kCapped>(to_float(pack.values[i]), rows.cap);
    own.add(x);
  });
  const Sums<kEntropy> all = sum_of_block(own);
  if (threadIdx.x > 0) return;
  const double log_sum = log(static_cast<double>(all.exps)), lse = all.base() + log_sum;
  const std::int64_t column = rows.targets[r] - rows.first_column;
  const bool is_own = column >= 0 && column < rows.columns;
  const float target = is_own ? capped<kCapped>(to_float(row[column]), rows.cap) : 0;
  results.lse[r] = static_cast<float>(lse);
  if (results.target_logits) results.target_logits[r] = target;
  if (results.log_probs) results.log_probs[r] = static_cast<float>(target - lse);
  if (kEntropy) results.entropy[r] = static_cast<float>(log_sum - all.weighted / all.exps);
}

template <bool kCapped, class T>
__global__ void __launch_bounds__(kRowThreads)
    gradient_kernel(T* logits, LogitRows rows, const float* all_lse, const float* all_scales) {
  const std::int64_t r = blockIdx.x;
  const float lse = all_lse[r], scale = all_scales[r], cap = rows.cap;
  const std::int64_t target = rows.targets[r] - rows.first_column;
  for_each_pack(logits + r * rows.columns, static_cast<int>(rows.columns), [&](int column, auto& pack) {
    auto values = pack;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(pack) / sizeof(T)); ++i) {
      const float x = capped<kCapped>(to_float(values.values[i]), cap);
      float gradient = -scale * __expf(x - lse);
      if (column + i == target) gradient += scale;
      if (kCapped) gradient *= 1 - x / cap * (x / cap);
      assign(values.values[i], gradient);
    }
    pack = values;
  });
}

template <class Action>
void with_flag(bool flag, const Action& action) {
  flag ? action(std::true_type{}) : action(std::false_type{});
}

}  // namespace

void score_rows(const void* logits, const LogitRows& rows, const RowResults& results, Stream stream) {
  if (rows.rows == 0) return;
  with_type(rows.type, [&](auto zero) {
    with_flag(results.entropy, [&](auto entropy) {
      with_flag(rows.cap > 0, [&](auto is_capped) {
        score_kernel<entropy.value, is_capped.value>
            <<<static_cast<unsigned>(rows.rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
                static_cast<const decltype(zero)*>(logits), rows, results);
      });
    });
  });
  check_launch("head");
}

void score_rows_backward(void* logits, const LogitRows& rows, const float* lse, const float* scale,
                         Stream stream) {
  if (rows.rows == 0) return;
  with_type(rows.type, [&](auto zero) {
    with_flag(rows.cap > 0, [&](auto is_capped) {
      gradient_kernel<is_capped.value>
          <<<static_cast<unsigned>(rows.rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
              static_cast<decltype(zero)*>(logits), rows, lse, scale);
    });
  });
  check_launch("head's gradient");
}

}  // namespace dpo::cuda
