// Tiles of a tree's rows in shared memory, and matmuls with them, for the kernels of attention over trees. A
// block of four warps takes a tile; each warp has 16 of its rows.
#pragma once

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
  return number + (number < tile.prompt_tokens ? tile.prompt : tile.responses - tile.prompt_tokens);
}

// True if a query sees a key. Other responses lie between the prompt and `query_start`.
__device__ inline bool sees(const TreeTile& tile, int query, int query_start, int key) {
  const auto others = static_cast<unsigned>(max(query_start - tile.prompt_tokens, 0));
  return key <= query && static_cast<unsigned>(key - tile.prompt_tokens) >= others;
}

// True if all of some consecutive queries see all of some consecutive keys. `queries` and `keys` are the
// first of them; `start` is the start of the last query.
__device__ inline bool all_see(const TreeTile& tile, int queries, int start, int keys, int key_count) {
  const int last = keys + key_count - 1;
  return last <= queries && (last < tile.prompt_tokens || start <= max(keys, tile.prompt_tokens));
}

__device__ inline Bf16* head_of(const TreeArray& array, int head) {
  return static_cast<Bf16*>(array.data) + head * array.head;
}

// Returns the block's dynamic shared memory. The pattern of swizzled rows repeats every 1024 bytes.
__device__ inline Bf16* tile_memory() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return reinterpret_cast<Bf16*>(memory);
}

// Layout of a head's rows in shared memory. Each row has 16 bytes of padding, so that rows start in different
// banks.
template <int kSize>
struct PaddedRows {
  static constexpr int kDim = kSize, kPitch = kSize + 8;
  template <int kRows>
  __device__ static int place(int row, int column) {
    return row * kPitch + column;
  }
};

// Panels of 64 columns, the layout that Hopper's matmuls read.
template <int kSize>
struct PanelRows {
  static constexpr int kPanel = 64, kDim = kSize, kPitch = kSize;
  static_assert(kDim % kPanel == 0);
  template <int kRows>
  __device__ static int place(int row, int column) {
    return (column / kPanel * kRows + row) * kPanel + swizzled(row, column % kPanel / 8) * 8 + column % 8;
  }
};

// Starts to copy kRows rows of a head from token number `first` of the tree on, with zeros after its last. A
// thread copies the same columns of several rows, so that little is computed per row.
template <class Rows, int kRows>
__device__ void copy_rows(Bf16* to, const TreeArray& array, int head, const TreeTile& tile, int first) {
  constexpr int kPacks = Rows::kDim / 8, kRowsAtOnce = kTreeThreads / kPacks;
  const int thread = static_cast<int>(threadIdx.x);
  const int own_row = thread / kPacks, column = thread % kPacks * 8;
  const Bf16* from = head_of(array, head) + column;
  const int stride = static_cast<int>(array.token);
  if (own_row >= kRowsAtOnce) return;
  const auto copy_each = [&](const auto& copy) {
#pragma unroll
    for (int begin = 0; begin < kRows; begin += kRowsAtOnce) {
      const int row = begin + own_row;
      if (kRows % kRowsAtOnce == 0 || row < kRows)
        copy(to + Rows::template place<kRows>(row, column), first + row);
    }
  };
  const int end = first + kRows;
  if (end <= tile.prompt_tokens || (first >= tile.prompt_tokens && end <= tile.tokens)) {
    // All rows exist and are consecutive, so the distance between them is constant.
    const Bf16* next = from + static_cast<std::int64_t>(token_of(tile, first + own_row)) * stride;
    copy_each([&](Bf16* row, int) {
      copy_async<16>(row, next, true);
      next += kRowsAtOnce * stride;
    });
  } else {
    copy_each([&](Bf16* row, int number) {
      const bool exists = number < tile.tokens;
      const std::int64_t token = exists ? token_of(tile, number) : 0;
      copy_async<16>(row, from + token * stride, exists);
    });
  }
}

// Writes a warp's rows through its own part of shared memory, so that whole rows are written.
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

// Loads a warp's rows of a tile as a left operand: 16 columns from `column` on.
template <class Rows>
__device__ Left left_at(const Bf16* tile, int column, const Lane& l) {
  Left left;
  load_blocks(left.blocks,
              tile + Rows::template place<kTreeTile>(l.first_row + l.lane % 16, column + l.lane / 16 * 8));
  return left;
}

// Computes products += left * (all kRows of `columns`)^T. left_of(i) has 16 columns from 16 * i on.
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

// Rounds 16 columns of weights, from block 2 * i on.
template <int kBlocks>
__device__ Left rounded(const float (&weights)[kBlocks][4], int i) {
  const float(&a)[4] = weights[2 * i], (&b)[4] = weights[2 * i + 1];
  return {{as_pair(a[0], a[1]), as_pair(a[2], a[3]), as_pair(b[0], b[1]), as_pair(b[2], b[3])}};
}

// Computes sums += weights (16 x kRows) * rows (kRows x kDim).
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

}  // namespace dpo::cuda
