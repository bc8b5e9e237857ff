// Quantizes a bfloat16 matrix to e4m3 with one scale per row or column.
#include <cuda_fp8.h>

#include "ops/cuda/packs.cuh"
#include "ops/cuda/sums.cuh"
#include "ops/quantized_formats.h"

namespace dpo::cuda {
namespace {

constexpr int kPack = 8;  // elements of a 16-byte access
using Bf16Pack = Pack<__nv_bfloat16, kPack>;

// Returns the magnitude as an integer, which sorts like the magnitudes, with NaN last.
__device__ unsigned magnitude(__nv_bfloat16 x) { return __bfloat16_as_ushort(x) & 0x7FFFU; }

// Returns the scale of a row from its largest magnitude. Does not use fmaxf, which would lose a NaN.
__device__ float fp8_scale(unsigned largest) {
  const float scale = __fmul_rn(__uint_as_float(largest << 16), 1 / ops::kLargestE4m3);
  return scale < ops::kSmallestFp8Scale ? ops::kSmallestFp8Scale : scale;
}

__device__ std::uint8_t fp8_code(__nv_bfloat16 x, float factor) {
  return __nv_cvt_float_to_fp8(__fmul_rn(__bfloat162float(x), factor), __NV_SATFINITE, __NV_E4M3);
}

// Returns the maximum over the threads of a block, which must be full warps. Every thread gets it.
__device__ unsigned block_max(unsigned x) {
  __shared__ unsigned of_warps[kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x = max(x, __shfl_xor_sync(~0U, x, distance));
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) x = max(x, of_warps[warp]);
  return x;
}

// Each block takes a row and reads it twice, the second time from a cache.
__global__ void fp8_rows_kernel(ToFp8 m) {
  const std::int64_t row = blockIdx.x, start = row * m.columns;
  const std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * kPack, step = kThreads * kPack;
  unsigned largest = 0;
  for (std::int64_t column = first; column < m.columns; column += step) {
    const Bf16Pack pack = pack_at<__nv_bfloat16, kPack>(m.in, start + column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) largest = max(largest, magnitude(pack.values[i]));
  }
  const float scale = fp8_scale(block_max(largest)), factor = __frcp_rn(scale);
  if (threadIdx.x == 0) m.scales[row] = scale;
  for (std::int64_t column = first; column < m.columns; column += step) {
    const Bf16Pack pack = pack_at<__nv_bfloat16, kPack>(m.in, start + column);
    Pack<std::uint8_t, kPack> codes;
#pragma unroll
    for (int i = 0; i < kPack; ++i) codes.values[i] = fp8_code(pack.values[i], factor);
    store_pack(m.codes, start + column, codes);
  }
}

// Each block takes a tile of the matrix; a thread has kPack columns of kTileRows / kGroups rows.
constexpr int kTileColumns = 64, kTileRows = 128;
constexpr int kPacks = kTileColumns / kPack;  // packs per row of the tile
constexpr int kGroups = kThreads / kPacks;
constexpr int kRowsOfThread = kTileRows / kGroups;  // their codes of a column form one word

struct Place {
  int pack, group;
  std::int64_t row, column;  // of the thread's first element
};

__device__ Place place_in_tile() {
  const int pack = static_cast<int>(threadIdx.x) % kPacks, group = static_cast<int>(threadIdx.x) / kPacks;
  return {pack, group, static_cast<std::int64_t>(blockIdx.y) * kTileRows + group * kRowsOfThread,
          static_cast<std::int64_t>(blockIdx.x) * kTileColumns + pack * kPack};
}

// The maximum does not depend on the order, so atomics give the same bits every time.
__global__ void largest_of_columns_kernel(ToFp8 m, std::uint32_t* largest) {
  __shared__ unsigned of_tile[kTileColumns];
  if (threadIdx.x < kTileColumns) of_tile[threadIdx.x] = 0;
  __syncthreads();
  const Place at = place_in_tile();
  if (at.column < m.columns && at.row < m.rows) {
    unsigned found[kPack] = {};
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const Bf16Pack pack = pack_at<__nv_bfloat16, kPack>(m.in, (at.row + r) * m.columns + at.column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) found[i] = max(found[i], magnitude(pack.values[i]));
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) atomicMax(&of_tile[at.pack * kPack + i], found[i]);
  }
  __syncthreads();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  if (threadIdx.x < kTileColumns && column < m.columns) atomicMax(&largest[column], of_tile[threadIdx.x]);
}

// Transposes a tile through shared memory, so that reads and writes are of adjacent elements.
__global__ void fp8_columns_kernel(ToFp8 m, const std::uint32_t* largest) {
  static_assert(kRowsOfThread == 4 && kTileRows == 4 * kWarp);
  __shared__ std::uint32_t tile[kTileColumns][kWarp + 1];  // + 1 puts columns into different banks
  const Place at = place_in_tile();
  if (at.column < m.columns && at.row < m.rows) {
    float factors[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float scale = fp8_scale(largest[at.column + i]);
      factors[i] = __frcp_rn(scale);
      if (at.row == 0) m.scales[at.column + i] = scale;
    }
    std::uint32_t words[kPack] = {};
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const Bf16Pack pack = pack_at<__nv_bfloat16, kPack>(m.in, (at.row + r) * m.columns + at.column);
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        words[i] |= static_cast<std::uint32_t>(fp8_code(pack.values[i], factors[i])) << (8 * r);
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) tile[at.pack * kPack + i][at.group] = words[i];
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTileRows + 4 * lane;
  if (row >= m.rows) return;
  for (int c = static_cast<int>(threadIdx.x) / kWarp; c < kTileColumns; c += kThreads / kWarp) {
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + c;
    if (column < m.columns)
      *reinterpret_cast<std::uint32_t*>(m.codes + column * m.rows + row) = tile[c][lane];
  }
}

}  // namespace

void fp8_rows(const ToFp8& matrix, Stream stream) {
  if (matrix.rows == 0) return;
  fp8_rows_kernel<<<static_cast<unsigned>(matrix.rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      matrix);
  check_launch("fp8_rows");
}

void fp8_columns(const ToFp8& matrix, std::uint32_t* largest, Stream stream) {
  if (matrix.rows == 0 || matrix.columns == 0) return;
  const dim3 tiles(static_cast<unsigned>((matrix.columns + kTileColumns - 1) / kTileColumns),
                   static_cast<unsigned>((matrix.rows + kTileRows - 1) / kTileRows));
  largest_of_columns_kernel<<<tiles, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(matrix, largest);
  check_launch("largest_of_columns");
  fp8_columns_kernel<<<tiles, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(matrix, largest);
  check_launch("fp8_columns");
}

}  // namespace dpo::cuda
