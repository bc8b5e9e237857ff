// Sums the columns of a matrix, such as for the gradient of a bias.
#include <algorithm>

#include "ops/cuda/layers.h"
#include "ops/cuda/packs.cuh"
#include "ops/cuda/sums.cuh"

namespace dpo::cuda {
namespace {

constexpr int kSumWarps = kThreads / kWarp;
constexpr int kRowsAtOnce = 8;  // loaded before the first is added, to keep enough loads in flight

// Adds kRows rows, `step` apart. No load is conditional, because the compiler would wait for each in turn.
template <int kRows, class T, int kWidth>
__device__ void add_rows(const ColumnSums& s, std::int64_t row, std::int64_t step, std::int64_t column,
                         float (&sums)[kWidth]) {
  Pack<T, kWidth> packs[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    packs[r] = pack_at<T, kWidth>(s.matrix, (row + r * step) * s.stride + column);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] += to_float(packs[r].values[i]);
}

// Adds rows row, row + step, ... while they are below `end`.
template <int kRows, class T, int kWidth>
__device__ void add_rows_until(const ColumnSums& s, std::int64_t row, std::int64_t end, std::int64_t step,
                               std::int64_t column, float (&sums)[kWidth]) {
  for (; row + (kRows - 1) * step < end; row += kRows * step) add_rows<kRows, T>(s, row, step, column, sums);
  if constexpr (kRows > 1) add_rows_until<kRows / 2, T>(s, row, end, step, column, sums);
}

// A lane takes a pack of columns, and a block the columns of a warp, so that few columns make many blocks
// too. The warps of all `parts` take turns at the rows.
template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads, 4) column_sums_kernel(ColumnSums s) {
  __shared__ float of_warps[kSumWarps][kWidth][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kWarp + lane) * kWidth;
  float sums[kWidth] = {};
  if (column < s.columns)
    add_rows_until<kRowsAtOnce, T>(s, blockIdx.y * kSumWarps + warp, s.rows, s.parts * kSumWarps, column,
                                   sums);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) of_warps[warp][i][lane] = sums[i];
  __syncthreads();
  if (column >= s.columns) return;
  for (int i = warp; i < kWidth; i += kSumWarps) {
    float sum = of_warps[0][i][lane];
#pragma unroll
    for (int w = 1; w < kSumWarps; ++w) sum += of_warps[w][i][lane];
    s.partial[blockIdx.y * s.columns + column + i] = sum;
  }
}

template <class T>
void launch_column_sums(const ColumnSums& s, cudaStream_t stream) {
  const auto launch = [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const std::int64_t of_block = kWarp * kWidth;
    const dim3 grid(static_cast<unsigned>((s.columns + of_block - 1) / of_block),
                    static_cast<unsigned>(s.parts));
    column_sums_kernel<T, kWidth><<<grid, kThreads, 0, stream>>>(s);
  };
  constexpr int kWide = 16 / sizeof(T);
  if (s.columns % kWide == 0 && s.stride % kWide == 0 && all_aligned(s.matrix))
    launch(std::integral_constant<int, kWide>());
  else
    launch(std::integral_constant<int, 1>());
}

}  // namespace

// Chooses as many blocks as a large GPU runs at once, unless a warp would get fewer rows than it loads at
// once.
std::int64_t column_sum_parts(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kBlocks = 528, kRowsOfPart = kSumWarps * kRowsAtOnce;
  const std::int64_t blocks_of_row = (columns + 8 * kWarp - 1) / (8 * kWarp);
  return std::max<std::int64_t>(1, std::min((rows + kRowsOfPart - 1) / kRowsOfPart,
                                            kBlocks / std::max<std::int64_t>(1, blocks_of_row)));
}

void column_sums(const ColumnSums& s, Stream stream) {
  if (s.columns == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  with_type(s.type, [&](auto zero) { launch_column_sums<decltype(zero)>(s, on); });
  with_type(s.sum_type, [&](auto zero) {
    launch_add_parts(s.partial, s.parts, s.columns, static_cast<decltype(zero)*>(s.sums), on);
  });
  check_launch("column_sums");
}

}  // namespace dpo::cuda
