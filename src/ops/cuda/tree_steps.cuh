// Queries of a tile and the keys they attend to.
#pragma once

#include "ops/cuda/tiles.cuh"

namespace dpo::cuda {

// Steps of keys for a tile of queries: keys of the prompt, then keys of its own responses.
template <int kStep>
struct KeySteps {
  static constexpr int kPerTile = kTreeTile / kStep;
  const TreeTile& tile;
  __device__ int count() const { return (tile.shared_end + tile.number + 1 - tile.own_begin) * kPerTile; }
  __device__ int first_key(int step) const {
    const int shared = tile.shared_end * kPerTile;
    return (step < shared ? step : step - shared + tile.own_begin * kPerTile) * kStep;
  }
};

// Work of a block that takes a tile of queries.
struct QueryTile {
  int head, kv_head;
  TreeTile tile;
  __device__ explicit QueryTile(const TreeAttention& a)
      : head(static_cast<int>(blockIdx.x % a.heads)),
        kv_head(head / static_cast<int>(a.heads / a.kv_heads)),
        tile(a.query_tiles[blockIdx.x / a.heads]) {}
};

// Computes exp2f() without its handling of subnormal results.
__device__ inline float power_of_2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ inline float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float max_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// Returns the start of the last of these queries.
__device__ inline int last_start(const TreeAttention& a, const TreeTile& tile, int first, int count) {
  return a.starts[token_of(tile, min(first + count, tile.tokens) - 1)];
}

// Per-lane numbers and starts of its two queries.
struct Queries {
  int number[2], start[2];
  __device__ Queries(const TreeAttention& a, const TreeTile& tile, const Lane& l) {
    for (int half = 0; half < 2; ++half) {
      number[half] = tile.number * kTreeTile + l.first_row + l.row() + 8 * half;
      start[half] = exists(tile, half) ? a.starts[token_of(tile, number[half])] : 0;
    }
  }
  __device__ bool exists(const TreeTile& tile, int half) const { return number[half] < tile.tokens; }

  // True if some query of the warp may see some of these keys. Starts ascend, except after the end of the
  // tree.
  __device__ bool may_see(const TreeTile& tile, int keys, int key_count, const Lane& l) const {
    const int first_start = __shfl_sync(0xffffffffu, start[0], 0);
    const int last = tile.number * kTreeTile + l.first_row + kWarpRows - 1;
    return keys <= last && (keys < tile.prompt_tokens || keys + key_count > first_start);
  }
};

// Sets the scores of keys that a query does not see to -infinity.
__device__ inline void hide(float (&scores)[8][4], const TreeTile& tile, const Queries& queries, int start,
                            int first_key, const Lane& l) {
  if (all_see(tile, tile.number * kTreeTile, start, first_key, 64)) return;
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (!sees(tile, queries.number[j / 2], queries.start[j / 2], first_key + 8 * i + l.column() + j % 2))
        scores[i][j] = -INFINITY;
}

// Running softmax: the largest score, and the sum of exponentials relative to it. Sums of four lanes are
// still separate.
struct SoftMax {
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  // Turns scores into weights. `earlier` receives the factors for earlier weights.
  template <int kBlocks>
  __device__ void add(float (&scores)[kBlocks][4], float scale, float (&earlier)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = largest[half];
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
        most = fmaxf(most, fmaxf(scores[i][2 * half], scores[i][2 * half + 1]));
      most = max_of_four(most);
      const float base = most == -INFINITY ? 0 : most * scale;
      earlier[half] = power_of_2(largest[half] * scale - base);
      largest[half] = most;
      sum[half] *= earlier[half];
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
#pragma unroll
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
          scores[i][j] = power_of_2(scores[i][j] * scale - base);
          sum[half] += scores[i][j];
        }
    }
  }
};

// Writes the outputs of a warp's queries, and the log-sum-exp of their scores.
template <class Rows>
__device__ void store_attention(const float (&sums)[Rows::kDim / 8][4], const SoftMax& soft_max,
                                const Queries& queries, const TreeAttention& a, const QueryTile& block,
                                const Lane& l) {
  const auto& [head, kv_head, tile] = block;
  float factors[2];
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_four(soft_max.sum[half]);
    factors[half] = 1 / sum;
    if (queries.exists(tile, half) && l.lane % 4 == 0)
      a.lse[head * a.tokens + token_of(tile, queries.number[half])] =
          soft_max.largest[half] * a.scale + logf(sum);
  }
  store_rows<Rows>(sums, factors, tile_memory(), a.out, head, tile, l);
}

template <int kValue>
using HeadDim = std::integral_constant<int, kValue>;

// Calls action(head size as a type). Returns false if there is no kernel for this size.
template <class Action>
bool with_head_dim(std::int64_t head_dim, const Action& action) {
  switch (head_dim) {
    case 64: action(HeadDim<64>()); return true;
    case 80: action(HeadDim<80>()); return true;
    case 96: action(HeadDim<96>()); return true;
    case 128: action(HeadDim<128>()); return true;
    default: return false;
  }
}

template <class Kernel, class... Arguments>
void launch_tiles(Kernel kernel, std::int64_t blocks, int elements, Stream stream,
                  const Arguments&... arguments) {
  const int bytes = elements * static_cast<int>(sizeof(Bf16));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<static_cast<unsigned>(blocks), kTreeThreads, static_cast<unsigned>(bytes),
           static_cast<cudaStream_t>(stream)>>>(arguments...);
}

}  // namespace dpo::cuda
