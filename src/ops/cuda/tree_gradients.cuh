// Shared code of the gradient kernels of attention over trees.
#pragma once

#include "ops/cuda/tree_steps.cuh"

namespace dpo::cuda {

// Computes the dot products of outputs and their gradients for every query of the tile. Two threads share
// each query.
template <class Rows>
__device__ void compute_delta(float* shared_delta, const Bf16* shared_grad, const TreeAttention& a,
                              const TreeGradients& g, const QueryTile& block) {
  const auto& [head, kv_head, tile] = block;
  const int row = static_cast<int>(threadIdx.x) / 2, part = static_cast<int>(threadIdx.x) % 2;
  const int number = tile.number * kTreeTile + row;
  const bool exists = number < tile.tokens;
  const std::int64_t token = exists ? token_of(tile, number) : 0;
  float sum = 0;
  if (exists)
#pragma unroll
    for (int column = part * Rows::kDim / 2; column < (part + 1) * Rows::kDim / 2; column += 8) {
      const auto out = *pack_at<8>(head_of(a.out, head) + token * a.out.token + column);
      const auto grad = *pack_at<8>(shared_grad + Rows::template place<kTreeTile>(row, column));
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += to_float(out.values[i]) * to_float(grad.values[i]);
    }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  if (part != 0) return;
  shared_delta[row] = sum;
  if (exists) g.delta[head * a.tokens + token] = sum;
}

// Turns scores into weights, and gradients of weights into gradients of scores, except for the scale.
__device__ inline void weigh(float& score, float& grad, float scale, float lse, float delta, bool visible) {
  score = visible ? power_of_2(score * scale - lse) : 0;
  grad = score * (grad - delta);
}

// Weighs every score of a warp. visible(i, j) refers to number j of block i; `all` means that all are
// visible.
template <int kBlocks, class Visible, class LseOf, class DeltaOf>
__device__ void weigh_each(float (&scores)[kBlocks][4], float (&grads)[kBlocks][4], float scale,
                           const LseOf& lse, const DeltaOf& delta, bool all, const Visible& visible) {
  const auto weigh_if = [&](const auto& is_visible) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        weigh(scores[i][j], grads[i][j], scale, lse(i, j), delta(i, j), is_visible(i, j));
  };
  if (all)
    weigh_if([](int, int) { return true; });
  else
    weigh_if(visible);
}

// Per-lane values of its two queries, for their gradients.
struct QueryGradients {
  float lse[2], delta[2];
  __device__ QueryGradients(const TreeAttention& a, const QueryTile& block, const Queries& queries,
                            const float* deltas, const Lane& l) {
    for (int half = 0; half < 2; ++half) {
      const bool exists = queries.exists(block.tile, half);
      const int token = exists ? token_of(block.tile, queries.number[half]) : 0;
      lse[half] = exists ? a.lse[block.head * a.tokens + token] * kLog2e : 0;
      delta[half] = deltas[l.first_row + l.row() + 8 * half];
    }
  }

  // Weighs a warp's queries (rows) with the keys of a step (columns).
  template <int kBlocks>
  __device__ void weigh_keys(float (&scores)[kBlocks][4], float (&grads)[kBlocks][4], float scale,
                             const TreeTile& tile, const Queries& queries, int start, int first_key,
                             const Lane& l) const {
    weigh_each(
        scores, grads, scale, [&](int, int j) { return lse[j / 2]; },
        [&](int, int j) { return delta[j / 2]; },
        all_see(tile, tile.number * kTreeTile, start, first_key, 8 * kBlocks),
        [&](int i, int j) {
          return sees(tile, queries.number[j / 2], queries.start[j / 2],
                      first_key + 8 * i + l.column() + j % 2);
        });
  }
};

// Per-query values of a step, in addition to the query rows.
template <int kStep>
struct StepQueries {
  alignas(8) float lse[kStep];
  alignas(8) float delta[kStep];
  std::int32_t start[kStep];

  __device__ void copy(const TreeAttention& a, const TreeGradients& g, int head, const TreeTile& tile,
                       int first) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= kStep) return;
    const bool exists = first + i < tile.tokens;
    const std::int64_t token = exists ? token_of(tile, first + i) : 0;
    copy_async<4>(&lse[i], a.lse + head * a.tokens + token, exists);
    copy_async<4>(&delta[i], g.delta + head * a.tokens + token, exists);
    copy_async<4>(&start[i], a.starts + token, exists);
  }
  __device__ int last_start(const TreeTile& tile, int first) const {
    return start[min(kStep, tile.tokens - first) - 1];
  }
};

// Consecutive queries of one head, which a block with a tile of keys processes in one step.
struct QueryStep {
  int head = 0, first = 0;
};

// Work of a block that takes a tile of keys. It processes the queries that see them in steps, one head after
// the other.
template <int kStep>
struct KeyTile {
  int kv_head, group, end;  // heads that share these keys, end of the queries
  TreeTile tile;
  __device__ explicit KeyTile(const TreeAttention& a)
      : kv_head(static_cast<int>(blockIdx.x % a.kv_heads)),
        group(static_cast<int>(a.heads / a.kv_heads)),
        tile(a.key_tiles[blockIdx.x / a.kv_heads]) {
    end = min((tile.last + 1) * kTreeTile, tile.tokens);
  }
  __device__ int first_key() const { return tile.number * kTreeTile; }
  __device__ int count() const { return group * ((end - first_key() + kStep - 1) / kStep); }
  __device__ QueryStep first_step() const { return {kv_head * group, first_key()}; }
  __device__ QueryStep after(QueryStep step) const {
    step.first += kStep;
    return step.first < end ? step : QueryStep{step.head + 1, first_key()};
  }
};

// Weighs a warp's keys (rows) with a step of queries (columns).
template <int kStep>
__device__ void weigh_queries(float (&scores)[kStep / 8][4], float (&grads)[kStep / 8][4], float scale,
                              const TreeTile& tile, int first, const StepQueries<kStep>& queries,
                              const Lane& l) {
  const int first_key = tile.number * kTreeTile;
  const auto query_of = [&](int i, int j) { return 8 * i + l.column() + j % 2; };
  const auto value_of = [&](const float* values, int i, int j) {
    const auto pair = *pack_at<2>(values + query_of(i, 0));
    return pair.values[j % 2];
  };
  weigh_each(
      scores, grads, scale, [&](int i, int j) { return value_of(queries.lse, i, j) * kLog2e; },
      [&](int i, int j) { return value_of(queries.delta, i, j); },
      all_see(tile, first, queries.last_start(tile, first), first_key, kTreeTile),
      [&](int i, int j) {
        const int query = query_of(i, j);
        return sees(tile, first + query, queries.start[query], first_key + l.first_row + l.row() + j / 2 * 8);
      });
}

}  // namespace dpo::cuda
