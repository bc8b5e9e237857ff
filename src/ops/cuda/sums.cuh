// Sums over threads in a fixed order.
#pragma once

#include "ops/cuda/launch.cuh"

namespace dpo::cuda {

constexpr int kWarp = 32;

__device__ inline float warp_sum(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(~0U, x, distance);
  return x;
}

// Sums over the threads of a block, which must be full warps. Every thread gets the sums.
template <int kCount>
__device__ void block_sums(float (&sums)[kCount]) {
  __shared__ float of_warps[kCount][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    sums[i] = warp_sum(sums[i]);
    if (lane == 0) of_warps[i][warp] = sums[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = warp_sum(lane < blockDim.x / kWarp ? of_warps[i][lane] : 0);
  __syncthreads();  // before of_warps is written again
}

// Runs the second stage of sums over rows: adds `parts` rows of `columns` numbers. A block takes one column
// per lane; each of its warps takes every eighth part.
template <class T>
__global__ void add_parts(const float* partial, std::int64_t parts, std::int64_t columns, T* sums) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ float of_warps[kWarps][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t part = warp; part < parts; part += kWarps) sum += partial[part * columns + column];
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= columns) return;
  for (int i = 1; i < kWarps; ++i) sum += of_warps[i][lane];
  assign(sums[column], sum);
}

template <class T>
void launch_add_parts(const float* partial, std::int64_t parts, std::int64_t columns, T* sums,
                      cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((columns + kWarp - 1) / kWarp);
  add_parts<<<blocks, kThreads, 0, stream>>>(partial, parts, columns, sums);
}

}  // namespace dpo::cuda
