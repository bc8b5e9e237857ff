// Adds sums of rows of one matrix to rows of another, with a warp for each sum and each 256 columns.
#include "ops/cuda/launch.cuh"
#include "ops/cuda/layers.h"
#include "ops/cuda/packs.cuh"
#include "ops/cuda/sums.cuh"

namespace dpo::cuda {
namespace {

constexpr int kLaneColumns = 8, kWarpColumns = kWarp * kLaneColumns;

__host__ __device__ std::int64_t warps_of_row(const AddRowSums& s) {
  return (s.width + kWarpColumns - 1) / kWarpColumns;
}

// Adds kRows rows. All are loaded before the first is added, to keep enough loads in flight.
template <int kRows, class In>
__device__ void add_rows(const AddRowSums& s, const std::int32_t* source_rows, std::int64_t column,
                         float (&sum)[kLaneColumns]) {
  Pack<In, kLaneColumns> packs[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    packs[r] = pack_at<In, kLaneColumns>(s.in, source_rows[r] * s.width + column);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) sum[i] += to_float(packs[r].values[i]);
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads) row_sums_kernel(AddRowSums s) {
  constexpr int kRowsAtOnce = 8, kOutColumns = 4;
  const std::int64_t warp = thread_number() / kWarp, number = warp / warps_of_row(s);
  const std::int64_t column =
      warp % warps_of_row(s) * kWarpColumns + static_cast<std::int64_t>(threadIdx.x % kWarp) * kLaneColumns;
  if (number >= s.sums || column >= s.width) return;
  float sum[kLaneColumns] = {};
  std::int32_t at = s.starts[number];
  const std::int32_t end = s.starts[number + 1];
  for (; at + kRowsAtOnce <= end; at += kRowsAtOnce)
    add_rows<kRowsAtOnce, In>(s, s.source_rows + at, column, sum);
  for (; at < end; ++at) add_rows<1, In>(s, s.source_rows + at, column, sum);
  Out* to = static_cast<Out*>(s.out) + s.rows[number] * s.width + column;
#pragma unroll
  for (int begin = 0; begin < kLaneColumns; begin += kOutColumns) {
    auto pack = *pack_at<kOutColumns>(to + begin);
#pragma unroll
    for (int i = 0; i < kOutColumns; ++i) assign(pack.values[i], to_float(pack.values[i]) + sum[begin + i]);
    *pack_at<kOutColumns>(to + begin) = pack;
  }
}

}  // namespace

bool supports_row_sums(std::int64_t width) { return width % kLaneColumns == 0; }

void add_row_sums(const AddRowSums& s, Stream stream) {
  if (s.sums == 0 || s.width == 0) return;
  with_type(s.in_type, [&](auto in) {
    with_type(s.out_type, [&](auto out) {
      row_sums_kernel<decltype(in), decltype(out)>
          <<<blocks_for(s.sums * warps_of_row(s) * kWarp), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
              s);
    });
  });
  check_launch("row sums");
}

}  // namespace dpo::cuda
