// Attention over trees with Hopper's warp-group matmuls. The four warps of a block multiply together, from
// shared memory, while they compute something else.
#pragma once

#include "ops/cuda/tree_steps.cuh"

#ifdef DPO_WARP_GROUPS
namespace dpo::cuda {

// Returns a matrix of kRows in panels of 64 columns, from this column on.
template <int kRows>
__device__ std::uint64_t panels_from(std::uint64_t matrix, int column) {
  constexpr int kPanel = PanelRows<64>::kPanel;
  return matrix_after(matrix, column / kPanel * kRows * kPanel + column % kPanel);
}

// Starts products = left * (all 64 rows of `columns`)^T.
template <int kDim>
__device__ void begin_multiply(float (&products)[8][4], const Left (&left)[kDim / 16],
                               std::uint64_t columns) {
  group_multiply<false, false>(products, left[0], columns);
#pragma unroll
  for (int i = 1; i < kDim / 16; ++i)
    group_multiply<true, false>(products, left[i], panels_from<64>(columns, 16 * i));
}

// Starts products = the rows of the tile * (all kRows of `columns`)^T.
template <int kDim, int kRows>
__device__ void begin_multiply(float (&products)[kRows / 8][4], std::uint64_t tile, std::uint64_t columns) {
  group_multiply<false>(products, tile, columns);
#pragma unroll
  for (int i = 1; i < kDim / 16; ++i)
    group_multiply<true>(products, panels_from<kTreeTile>(tile, 16 * i), panels_from<kRows>(columns, 16 * i));
}

// Starts sums += weights (64 x kRows) * rows (kRows x kDim).
template <int kDim, int kRows>
__device__ void begin_add_weighted(float (&sums)[kDim / 8][4], const Left (&weights)[kRows / 16],
                                   std::uint64_t rows) {
  constexpr int kPanel = PanelRows<kDim>::kPanel, kBlocks = kPanel / 8;
#pragma unroll
  for (int i = 0; i < kRows / 16; ++i)
#pragma unroll
    for (int panel = 0; panel < kDim / kPanel; ++panel)
      group_multiply<true, true>(reinterpret_cast<float(&)[kBlocks][4]>(sums[panel * kBlocks]), weights[i],
                                 matrix_after(rows, (panel * kRows + 16 * i) * kPanel));
}

template <int kRows>
__device__ void round_all(Left (&to)[kRows / 16], const float (&weights)[kRows / 8][4]) {
#pragma unroll
  for (int i = 0; i < kRows / 16; ++i) to[i] = rounded(weights, i);
}

// Processes a block's tile of queries. While the weights of one step are computed, the values of the previous
// step are accumulated, and the keys and values of the next step are copied.
template <int kDim>
__device__ void attend_as_group(const TreeAttention& a) {
  using Rows = PanelRows<kDim>;
  constexpr int kStep = 64, kRows = kStep * kDim;
  Bf16* keys = tile_memory();       // two steps
  Bf16* values = keys + 2 * kRows;  // two steps
  const QueryTile block(a);
  const TreeTile& tile = block.tile;
  const Lane l;
  const KeySteps<kStep> steps{tile};
  const auto copy_keys = [&](int step) {
    copy_rows<Rows, kStep>(keys + step % 2 * kRows, a.k, block.kv_head, tile, steps.first_key(step));
  };
  const auto copy_values = [&](int step) {
    copy_rows<Rows, kStep>(values + step % 2 * kRows, a.v, block.kv_head, tile, steps.first_key(step));
  };
  Bf16* own = values + kRows;  // queries are where the values of step 1 will be
  copy_rows<Rows, kTreeTile>(own, a.q, block.head, tile, tile.number * kTreeTile);
  copy_keys(0);
  end_copies();
  if (steps.count() > 1) copy_keys(1);
  copy_values(0);
  end_copies();
  wait_for_copies<1>();
  publish_copies();
  __syncthreads();
  Left q[kDim / 16], weights[kStep / 16];
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) q[i] = left_at<Rows>(own, 16 * i, l);
  float scores[kStep / 8][4] = {}, sums[kDim / 8][4] = {}, earlier[2];
  begin_matmuls();
  begin_multiply<kDim>(scores, q, matrix_at(keys));
  end_matmuls();
  const Queries queries(a, tile, l);
  const int start = last_start(a, tile, tile.number * kTreeTile, kTreeTile);
  const float scale = a.scale * kLog2e;
  SoftMax soft_max;
  wait_for_matmuls<0>();
  take_sums(scores);
  hide(scores, tile, queries, start, steps.first_key(0), l);
  soft_max.add(scores, scale, earlier);
  round_all<kStep>(weights, scores);
  for (int step = 0; step + 1 < steps.count(); ++step) {
    wait_for_copies<0>();
    publish_copies();
    __syncthreads();  // the copies have arrived, and no thread reads what the next ones overwrite
    begin_matmuls();
    begin_multiply<kDim>(scores, q, matrix_at(keys + (step + 1) % 2 * kRows));
    end_matmuls();
    begin_add_weighted<kDim, kStep>(sums, weights, matrix_at(values + step % 2 * kRows));
    end_matmuls();
    if (step + 2 < steps.count()) copy_keys(step + 2);
    copy_values(step + 1);
    end_copies();
    wait_for_matmuls<1>();
    take_sums(scores);
    hide(scores, tile, queries, start, steps.first_key(step + 1), l);
    soft_max.add(scores, scale, earlier);
    wait_for_matmuls<0>();
    take_sums(sums);
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] *= earlier[j / 2];
    round_all<kStep>(weights, scores);
  }
  wait_for_copies<0>();
  publish_copies();
  __syncthreads();
  begin_matmuls();
  begin_add_weighted<kDim, kStep>(sums, weights, matrix_at(values + (steps.count() - 1) % 2 * kRows));
  end_matmuls();
  wait_for_matmuls<0>();
  take_sums(sums);
  __syncthreads();
  store_attention<Rows>(sums, soft_max, queries, a, block, l);
}

}  // namespace dpo::cuda
#endif
