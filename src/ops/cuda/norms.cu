// Layer norm and RMS norm. A block takes a row; each thread keeps kElements numbers of it in registers.
#include <algorithm>

#include "ops/cuda/layers.h"
#include "ops/cuda/packs.cuh"
#include "ops/cuda/sums.cuh"

namespace dpo::cuda {
namespace {

constexpr int kMaxRowThreads = 512;
constexpr int kFewElements = 8, kManyElements = 16;

// Returns the column at which this thread's pack number p of a row begins.
template <int kWidth>
__device__ std::int64_t column_of(int p) {
  return static_cast<std::int64_t>(p * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kWidth;
}

template <class T, int kWidth, int kElements>
__global__ void __launch_bounds__(kMaxRowThreads) norm_kernel(Norm n) {
  constexpr int kPacks = kElements / kWidth;
  const std::int64_t row = blockIdx.x, start = row * n.width;
  const float inverse_width = 1 / static_cast<float>(n.width);
  float x[kPacks][kWidth] = {};
  float total[1] = {0};
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t column = column_of<kWidth>(p);
    if (column >= n.width) break;
    auto pack = pack_at<T, kWidth>(n.x, start + column);
    if (n.residual) {
      const auto more = pack_at<T, kWidth>(n.residual, start + column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        assign(pack.values[i], to_float(pack.values[i]) + to_float(more.values[i]));
      store_pack(n.sum, start + column, pack);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) total[0] += x[p][i] = to_float(pack.values[i]);
  }
  float mean = 0;
  if (n.is_layer_norm) {
    block_sums(total);
    mean = total[0] * inverse_width;
  }
  float squares[1] = {0};
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    if (column_of<kWidth>(p) < n.width)
#pragma unroll
      for (int i = 0; i < kWidth; ++i) squares[0] += (x[p][i] - mean) * (x[p][i] - mean);
  block_sums(squares);
  const float rstd = rsqrtf(squares[0] * inverse_width + n.epsilon);
  if (threadIdx.x == 0) {
    if (n.mean) n.mean[row] = mean;
    n.rstd[row] = rstd;
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t column = column_of<kWidth>(p);
    if (column >= n.width) break;
#pragma unroll
    for (int k = 0; k < kMaxNorms; ++k) {
      if (k >= n.norms) break;
      const auto weight = pack_at<T, kWidth>(n.weights[k], column);
      Pack<T, kWidth> bias = {}, out;
      if (n.biases[k]) bias = pack_at<T, kWidth>(n.biases[k], column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        assign(out.values[i], (x[p][i] - mean) * rstd * (n.weight_offset + to_float(weight.values[i])) +
                                  (n.biases[k] ? to_float(bias.values[i]) : 0.0F));
      store_pack(n.out[k], start + column, out);
    }
  }
}

// Each block takes every `parts`th row. Its threads have the same columns of each row, and keep their sums.
template <class T, int kWidth, int kElements, bool kLayerNorm, int kNorms>
__global__ void __launch_bounds__(kMaxRowThreads) norm_backward_kernel(NormGradient n) {
  constexpr int kPacks = kElements / kWidth;
  const float inverse_width = 1 / static_cast<float>(n.width);
  float weight_sums[kNorms][kPacks][kWidth] = {}, bias_sums[kNorms][kPacks][kWidth] = {};
  for (std::int64_t row = blockIdx.x; row < n.rows; row += n.parts) {
    const std::int64_t start = row * n.width;
    const float rstd = n.rstd[row], mean = kLayerNorm ? n.mean[row] : 0;
    float normed[kPacks][kWidth], scaled[kPacks][kWidth];  // (x - mean) * rstd, and its gradient
    float sums[2] = {0, 0};
    Pack<T, kWidth> more[kPacks] = {};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const std::int64_t column = column_of<kWidth>(p);
      if (column >= n.width) break;
      const auto x = pack_at<T, kWidth>(n.x, start + column);
      if (n.grad_sum) more[p] = pack_at<T, kWidth>(n.grad_sum, start + column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        normed[p][i] = (to_float(x.values[i]) - mean) * rstd;
        scaled[p][i] = 0;
      }
#pragma unroll
      for (int k = 0; k < kNorms; ++k) {
        if (!n.grads[k]) continue;
        const auto grad = pack_at<T, kWidth>(n.grads[k], start + column);
        const auto weight = pack_at<T, kWidth>(n.weights[k], column);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const float g = to_float(grad.values[i]);
          scaled[p][i] += g * (n.weight_offset + to_float(weight.values[i]));
          weight_sums[k][p][i] += g * normed[p][i];
          if (kLayerNorm) bias_sums[k][p][i] += g;
        }
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        sums[0] += scaled[p][i] * normed[p][i];
        if (kLayerNorm) sums[1] += scaled[p][i];
      }
    }
    block_sums(sums);
    const float along = sums[0] * inverse_width, level = sums[1] * inverse_width;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const std::int64_t column = column_of<kWidth>(p);
      if (column >= n.width) break;
      Pack<T, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        assign(out.values[i], rstd * (scaled[p][i] - level - normed[p][i] * along) +
                                  (n.grad_sum ? to_float(more[p].values[i]) : 0.0F));
      store_pack(n.grad_x, start + column, out);
    }
  }
  float* partial = n.partial + static_cast<std::int64_t>(blockIdx.x) * 2 * kNorms * n.width;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t column = column_of<kWidth>(p);
    if (column >= n.width) break;
#pragma unroll
    for (int k = 0; k < kNorms; ++k)
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        partial[2 * k * n.width + column + i] = weight_sums[k][p][i];
        partial[(2 * k + 1) * n.width + column + i] = bias_sums[k][p][i];
      }
  }
}

int elements_for(std::int64_t width) {
  return width <= kMaxRowThreads * kFewElements ? kFewElements : kManyElements;
}

// Returns the number of threads that the row needs, rounded up to full warps.
int threads_for(std::int64_t width, int elements) {
  const auto needed = static_cast<int>((width + elements - 1) / elements);
  return (needed + kWarp - 1) / kWarp * kWarp;
}

// A number as a type, for with_variant(), which calls action(T, kWidth, kElements).
template <int kValue>
using Constant = std::integral_constant<int, kValue>;

template <class Action>
void with_variant(Type type, std::int64_t width, bool is_wide, const Action& action) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = 16 / sizeof(T);
    if (!is_wide || width % kWidth != 0) return action(zero, Constant<1>(), Constant<kManyElements>());
    if (elements_for(width) == kFewElements)
      return action(zero, Constant<kWidth>(), Constant<kFewElements>());
    action(zero, Constant<kWidth>(), Constant<kManyElements>());
  });
}

// Calls action(T, the gradient kernel, its number of threads).
template <bool kLayerNorm, int kNorms, class Action>
void with_backward_kernel(const NormGradient& n, const Action& action) {
  const bool wide =
      all_aligned(n.x, n.weights[0], n.weights[1], n.grads[0], n.grads[1], n.grad_sum, n.grad_x);
  with_variant(n.type, n.width, wide, [&](auto zero, auto width, auto elements) {
    using T = decltype(zero);
    action(zero,
           norm_backward_kernel<T, decltype(width)::value, decltype(elements)::value, kLayerNorm, kNorms>,
           threads_for(n.width, decltype(elements)::value));
  });
}

template <class Action>
void with_backward_kernel(const NormGradient& n, const Action& action) {
  if (!n.is_layer_norm)
    n.norms == 1 ? with_backward_kernel<false, 1>(n, action) : with_backward_kernel<false, 2>(n, action);
  else
    n.norms == 1 ? with_backward_kernel<true, 1>(n, action) : with_backward_kernel<true, 2>(n, action);
}

}  // namespace

bool supports_norm(std::int64_t width) { return width > 0 && width <= kMaxRowThreads * kManyElements; }

void norm(const Norm& n, Stream stream) {
  if (n.rows == 0) return;
  const bool wide = all_aligned(n.x, n.residual, n.sum, n.weights[0], n.weights[1], n.biases[0], n.biases[1],
                                n.out[0], n.out[1]);
  with_variant(n.type, n.width, wide, [&](auto zero, auto width, auto elements) {
    norm_kernel<decltype(zero), decltype(width)::value, decltype(elements)::value>
        <<<static_cast<unsigned>(n.rows), threads_for(n.width, decltype(elements)::value), 0,
           static_cast<cudaStream_t>(stream)>>>(n);
  });
  check_launch("norm");
}

// Chooses as many blocks as the GPU runs at once. A few more would take twice as long.
std::int64_t norm_parts(const NormGradient& n) {
  constexpr std::int64_t kMostParts = 1024;  // so many sums are cheap to add
  int device = 0, multiprocessors = 1, blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  with_backward_kernel(n, [&](auto, auto kernel, int threads) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);
  });
  const std::int64_t at_once = static_cast<std::int64_t>(multiprocessors) * blocks;
  return std::max<std::int64_t>(1, std::min({n.rows, at_once, kMostParts}));
}

void norm_backward(const NormGradient& n, Stream stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  with_backward_kernel(n, [&](auto zero, auto kernel, int threads) {
    kernel<<<static_cast<unsigned>(n.parts), static_cast<unsigned>(threads), 0, on>>>(n);
    launch_add_parts(n.partial, n.parts, 2 * n.norms * n.width, static_cast<decltype(zero)*>(n.grad_weights),
                     on);
  });
  check_launch("norm_backward");
}

}  // namespace dpo::cuda
