// Tiles of a tree's rows in shared memory, and products with them, for the kernels of attention over trees. A
// block of four warps takes a tile; each warp has 16 of its rows.
#pragma once

#include <type_traits>

#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_cores.cuh"
#include "ops/cuda/trees.h"

namespace dpo::cuda {

using Bf16 = __nv_bfloat16;

constexpr int kTreeWarps = 4, kTreeThreads = 32 * kTreeWarps;
constexpr int kWarpRows = kTreeTile / kTreeWarps;
static_assert(kWarpRows == 16);
constexpr float kLog2e = 1.44269504088896340736f;

struct Lane {
  int lane = static_cast<int>(threadIdx.x) % 32;
  int first_row = static_cast<int>(threadIdx.x) / 32 * kWarpRows;  // of the warp in its tile
  __device__ int row() const { return lane / 4; }                  // and row() + 8
  __device__ int column() const { return lane % 4 * 2; }           // and column() + 1, of each block
};

__device__ inline int token_of(const TreeTile& tile, int number) {
  return number < tile.prompt_tokens ? tile.prompt + number : tile.responses + number - tile.prompt_tokens;
}

__device__ inline bool sees(const TreeTile& tile, int query, int query_start, int key) {
  return key <= query && (key < tile.prompt_tokens || key >= query_start);
}

// Whether every query from `queries` on sees all of these keys.
__device__ inline bool all_see(const TreeTile& tile, int queries, int keys, int key_count) {
  const int last = keys + key_count - 1;
  return last <= queries && last < tile.prompt_tokens;
}

__device__ inline Bf16* head_of(const TreeArray& array, int head) {
  return static_cast<Bf16*>(array.data) + head * array.head;
}

// A block's dynamic shared memory. The pattern of swizzled rows repeats every 1024 bytes.
__device__ inline Bf16* tile_memory() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return reinterpret_cast<Bf16*>(memory);
}

// How a head's rows are in shared memory. Here a row has 16 bytes more than the head, so that rows are in
// different banks.
template <int kSize>
struct PaddedRows {
  static constexpr int kDim = kSize, kPitch = kSize + 8;
  template <int kRows>
  __device__ static int place(int row, int column) {
    return row * kPitch + column;
  }
};

// Panels of 64 columns, as Hopper's products read them.
template <int kSize>
struct PanelRows {
  static constexpr int kPanel = 64, kDim = kSize, kPitch = kSize;
  static_assert(kDim % kPanel == 0);
  template <int kRows>
  __device__ static int place(int row, int column) {
    return (column / kPanel * kRows + row) * kPanel + swizzled(row, column % kPanel / 8) * 8 + column % 8;
  }
};

// Begins to copy kRows of a head from number `first` of the tree on; zeros after its last.
template <class Rows, int kRows>
__device__ void copy_rows(Bf16* to, const TreeArray& array, int head, const TreeTile& tile, int first) {
  constexpr int kPacks = Rows::kDim / 8;
  const Bf16* from = head_of(array, head);
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kTreeThreads) {
    const int row = i / kPacks, column = i % kPacks * 8;
    const bool exists = first + row < tile.tokens;
    const std::int64_t token = exists ? token_of(tile, first + row) : 0;
    copy_async<16>(to + Rows::template place<kRows>(row, column), from + token * array.token + column,
                   exists);
  }
}

// Writes a warp's rows, by way of shared memory that is its own, so that whole rows are written.
template <class Rows>
__device__ void store_rows(const float (&sums)[Rows::kDim / 8][4], const float (&factors)[2], Bf16* shared,
                           const TreeArray& array, int head, const TreeTile& tile, const Lane& l) {
  const auto place = [&](int row, int column) {
    return Rows::template place<kTreeTile>(l.first_row + row, column);
  };
#pragma unroll
  for (int i = 0; i < Rows::kDim / 8; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<std::uint32_t*>(shared + place(l.row() + 8 * half, 8 * i + l.column())) =
          as_pair(sums[i][2 * half] * factors[half], sums[i][2 * half + 1] * factors[half]);
  __syncwarp();
  constexpr int kPacks = Rows::kDim / 8;
  Bf16* to = head_of(array, head);
  for (int i = l.lane; i < kWarpRows * kPacks; i += 32) {
    const int row = i / kPacks, column = i % kPacks * 8;
    const int number = tile.number * kTreeTile + l.first_row + row;
    if (number < tile.tokens)
      *pack_at<8>(to + token_of(tile, number) * array.token + column) =
          *pack_at<8>(shared + place(row, column));
  }
  __syncwarp();
}

// The rows of a warp in a tile as a left operand: 16 columns from `column` on.
template <int kDim>
__device__ Left left_at(const Bf16* tile, int column, const Lane& l) {
  Left left;
  load_blocks(left.blocks, tile + PaddedRows<kDim>::template place<kTreeTile>(l.first_row + l.lane % 16,
                                                                              column + l.lane / 16 * 8));
  return left;
}

// products += left * (all kRows of `columns`)^T; left_of(i) has 16 columns from 16 * i on.
template <int kDim, int kRows, class LeftOf>
__device__ void multiply(float (&products)[kRows / 8][4], const LeftOf& left_of, const Bf16* columns,
                         int lane) {
  using Rows = PaddedRows<kDim>;
  const Bf16* at = columns + Rows::template place<kRows>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    const Left left = left_of(i);
#pragma unroll
    for (int row = 0; row < kRows; row += 16) {
      Right right;
      load_blocks(right.blocks, at + Rows::template place<kRows>(row, 16 * i));
      multiply_add(products[row / 8], left, right.blocks[0], right.blocks[1]);
      multiply_add(products[row / 8 + 1], left, right.blocks[2], right.blocks[3]);
    }
  }
}

// 16 columns of weights, rounded, from block 2 * i on.
template <int kBlocks>
__device__ Left rounded(const float (&weights)[kBlocks][4], int i) {
  const float(&a)[4] = weights[2 * i], (&b)[4] = weights[2 * i + 1];
  return {{as_pair(a[0], a[1]), as_pair(a[2], a[3]), as_pair(b[0], b[1]), as_pair(b[2], b[3])}};
}

// sums += weights (16 x kRows) * rows (kRows x kDim).
template <int kDim, int kRows>
__device__ void add_weighted(float (&sums)[kDim / 8][4], const float (&weights)[kRows / 8][4],
                             const Bf16* rows, int lane) {
  using Rows = PaddedRows<kDim>;
  const Bf16* at = rows + Rows::template place<kRows>(lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
#pragma unroll
  for (int i = 0; i < kRows / 16; ++i) {
    const Left left = rounded(weights, i);
#pragma unroll
    for (int column = 0; column < kDim; column += 16) {
      Right right;
      load_blocks_transposed(right.blocks, at + Rows::template place<kRows>(16 * i, column));
      multiply_add(sums[column / 8], left, right.blocks[0], right.blocks[1]);
      multiply_add(sums[column / 8 + 1], left, right.blocks[2], right.blocks[3]);
    }
  }
}

// The products of a tile in shared memory with what it meets, each warp for itself ...
template <int kDim>
struct WarpProducts {
  using Rows = PaddedRows<kDim>;
  static constexpr bool kTogether = false;

  // products += the warp's rows of the tile * (all kRows of `columns`)^T.
  template <int kRows>
  __device__ static void multiply(float (&products)[kRows / 8][4], const Bf16* tile, const Bf16* columns,
                                  const Lane& l) {
    cuda::multiply<kDim, kRows>(
        products, [&](int i) { return left_at<kDim>(tile, 16 * i, l); }, columns, l.lane);
  }

  template <int kRows>
  __device__ static void add_weighted(float (&sums)[kDim / 8][4], const float (&weights)[kRows / 8][4],
                                      const Bf16* rows, const Lane& l) {
    cuda::add_weighted<kDim, kRows>(sums, weights, rows, l.lane);
  }
};

#ifdef DPO_WARP_GROUPS
// ... or all four together.
template <int kDim>
struct GroupProducts {
  using Rows = PanelRows<kDim>;
  static constexpr bool kTogether = true;

  template <int kRows>
  __device__ static void multiply(float (&products)[kRows / 8][4], const Bf16* tile, const Bf16* columns,
                                  const Lane&) {
    begin_group();
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i)
      group_multiply_add(products, columns_at<kTreeTile>(tile, 16 * i), columns_at<kRows>(columns, 16 * i));
    end_group();
  }

  template <int kRows>
  __device__ static void add_weighted(float (&sums)[kDim / 8][4], const float (&weights)[kRows / 8][4],
                                      const Bf16* rows, const Lane&) {
    constexpr int kBlocks = Rows::kPanel / 8;
    Left left[kRows / 16];
#pragma unroll
    for (int i = 0; i < kRows / 16; ++i) left[i] = rounded(weights, i);
    begin_group();
#pragma unroll
    for (int i = 0; i < kRows / 16; ++i)
#pragma unroll
      for (int panel = 0; panel < kDim / Rows::kPanel; ++panel)
        group_multiply_add(reinterpret_cast<float(&)[kBlocks][4]>(sums[panel * kBlocks]), left[i],
                           matrix_at(rows + (panel * kRows + 16 * i) * Rows::kPanel));
    end_group();
  }

 private:
  template <int kRows>
  __device__ static std::uint64_t columns_at(const Bf16* rows, int column) {
    return matrix_at(rows + column / Rows::kPanel * kRows * Rows::kPanel + column % Rows::kPanel);
  }
};

template <int kDim>
using KeyProducts = std::conditional_t<kDim % 64 == 0, GroupProducts<kDim>, WarpProducts<kDim>>;
#else
template <int kDim>
using KeyProducts = WarpProducts<kDim>;
#endif

}  // namespace dpo::cuda
