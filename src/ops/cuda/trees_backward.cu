// The gradients of attention over trees: of queries as in the forward pass, and of keys and values by blocks
// that take a tile of keys and meet the queries that see them. Nothing is added by several blocks.
#include "ops/cuda/tree_steps.cuh"

namespace dpo::cuda {
namespace {

constexpr int kBackwardStep = 32;

// As kForwardBlocks in trees.cu.
template <int kDim>
constexpr int kBackwardBlocks = kDim <= 64   ? 4
                                : kDim <= 96 ? 3
                                             : 2;

// The products of outputs and their gradients, of every query of the tile. Two threads share each.
template <int kDim>
__device__ void compute_delta(float* shared_delta, const Bf16* shared_grad, const TreeAttention& a,
                              const TreeGradients& g, int head, const TreeTile& tile) {
  const int row = static_cast<int>(threadIdx.x) / 2, part = static_cast<int>(threadIdx.x) % 2;
  const int number = tile.number * kTreeTile + row;
  const bool exists = number < tile.tokens;
  const std::int64_t token = exists ? token_of(tile, number) : 0;
  float sum = 0;
  if (exists)
#pragma unroll
    for (int column = part * kDim / 2; column < (part + 1) * kDim / 2; column += 8) {
      const auto out = *pack_at<8>(head_of(a.out, head) + token * a.out.token + column);
      const auto grad = *pack_at<8>(shared_grad + PaddedRows<kDim>::template place<kTreeTile>(row, column));
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += to_float(out.values[i]) * to_float(grad.values[i]);
    }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  if (part != 0) return;
  shared_delta[row] = sum;
  if (exists) g.delta[head * a.tokens + token] = sum;
}

// Scores and the gradients of the weights become weights and the gradients of scores, but for the scale.
__device__ void weigh(float& score, float& grad, float scale, float lse, float delta, bool visible) {
  score = visible ? power_of_2(score * scale - lse) : 0;
  grad = score * (grad - delta);
}

template <int kDim>
__global__ void __launch_bounds__(kTreeThreads, kBackwardBlocks<kDim>)
    attention_of_trees_dq(TreeAttention a, TreeGradients g) {
  constexpr int kRows = kBackwardStep * PaddedRows<kDim>::kPitch, kBlocks = kBackwardStep / 8;
  __shared__ float deltas[kTreeTile];
  Bf16* shared = tile_memory();  // keys and values, of two steps
  const int head = static_cast<int>(blockIdx.x % a.heads);
  const int kv_head = head / static_cast<int>(a.heads / a.kv_heads);
  const TreeTile tile = a.tiles[blockIdx.x / a.heads];
  const Lane l;
  const KeySteps<kBackwardStep> steps{tile};
  const auto copy_step = [&](int step) {
    Bf16* to = shared + step % 2 * 2 * kRows;
    copy_rows<PaddedRows<kDim>, kBackwardStep>(to, a.k, kv_head, tile, steps.first_key(step));
    copy_rows<PaddedRows<kDim>, kBackwardStep>(to + kRows, a.v, kv_head, tile, steps.first_key(step));
    end_copies();
  };
  Bf16* own = shared;  // queries and gradients of outputs are where both steps will be
  copy_rows<PaddedRows<kDim>, kTreeTile>(own, a.q, head, tile, tile.number * kTreeTile);
  copy_rows<PaddedRows<kDim>, kTreeTile>(own + 2 * kRows, g.out, head, tile, tile.number * kTreeTile);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  compute_delta<kDim>(deltas, own + 2 * kRows, a, g, head, tile);
  Left q[kDim / 16], grad[kDim / 16];
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    q[i] = left_at<kDim>(own, 16 * i, l);
    grad[i] = left_at<kDim>(own + 2 * kRows, 16 * i, l);
  }
  __syncthreads();
  copy_step(0);
  const Queries queries(a, tile, l);
  float lse[2], delta[2];
  for (int half = 0; half < 2; ++half) {
    const bool exists = queries.exists(tile, half);
    lse[half] = exists ? a.lse[head * a.tokens + token_of(tile, queries.number[half])] * kLog2e : 0;
    delta[half] = deltas[l.first_row + l.row() + 8 * half];
  }
  const float scale = a.scale * kLog2e;
  float sums[kDim / 8][4] = {};
  for (int step = 0; step < steps.count(); ++step) {
    wait_for_copies<0>();
    __syncthreads();
    if (step + 1 < steps.count()) copy_step(step + 1);
    const int first_key = steps.first_key(step);
    if (!queries.may_see(tile, first_key, kBackwardStep, l)) continue;
    const Bf16* keys = shared + step % 2 * 2 * kRows;
    float scores[kBlocks][4] = {}, grads[kBlocks][4] = {};
    multiply<kDim, kBackwardStep>(
        scores, [&](int i) { return q[i]; }, keys, l.lane);
    multiply<kDim, kBackwardStep>(
        grads, [&](int i) { return grad[i]; }, keys + kRows, l.lane);
    const bool all = all_see(tile, tile.number * kTreeTile, first_key, kBackwardStep);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        weigh(scores[i][j], grads[i][j], scale, lse[j / 2], delta[j / 2],
              all || sees(tile, queries.number[j / 2], queries.start[j / 2],
                          first_key + 8 * i + l.column() + j % 2));
    add_weighted<kDim, kBackwardStep>(sums, grads, keys, l.lane);
  }
  __syncthreads();
  store_rows<PaddedRows<kDim>>(sums, {a.scale, a.scale}, shared, g.q, head, tile, l);
}

// What a step of queries brings besides their rows.
struct StepQueries {
  float lse[kBackwardStep], delta[kBackwardStep];
  std::int32_t start[kBackwardStep];
};

__device__ void copy_queries(StepQueries& to, const TreeAttention& a, const TreeGradients& g, int head,
                             const TreeTile& tile, int first) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kBackwardStep) return;
  const bool exists = first + i < tile.tokens;
  const std::int64_t token = exists ? token_of(tile, first + i) : 0;
  copy_async<4>(&to.lse[i], a.lse + head * a.tokens + token, exists);
  copy_async<4>(&to.delta[i], g.delta + head * a.tokens + token, exists);
  copy_async<4>(&to.start[i], a.starts + token, exists);
}

template <int kDim>
__global__ void __launch_bounds__(kTreeThreads, kBackwardBlocks<kDim>)
    attention_of_trees_dkv(TreeAttention a, TreeGradients g) {
  using Products = KeyProducts<kDim>;
  using Rows = typename Products::Rows;
  constexpr int kOwn = kTreeTile * Rows::kPitch, kRows = kBackwardStep * Rows::kPitch;
  constexpr int kBlocks = kBackwardStep / 8, kPerTile = kTreeTile / kBackwardStep;
  __shared__ StepQueries step_queries[2];
  Bf16* own_keys = tile_memory();
  Bf16* own_values = own_keys + kOwn;
  Bf16* shared = own_values + kOwn;  // queries and gradients of outputs, of two steps
  const int kv_head = static_cast<int>(blockIdx.x % a.kv_heads);
  const int group = static_cast<int>(a.heads / a.kv_heads);
  const TreeTile tile = a.tiles[blockIdx.x / a.kv_heads];
  const Lane l;
  const int steps = (tile.last + 1 - tile.number) * kPerTile;  // of a head
  const auto first_query = [&](int step) { return tile.number * kTreeTile + step % steps * kBackwardStep; };
  const auto copy_step = [&](int step) {
    const int head = kv_head * group + step / steps, first = first_query(step);
    Bf16* to = shared + step % 2 * 2 * kRows;
    copy_rows<Rows, kBackwardStep>(to, a.q, head, tile, first);
    copy_rows<Rows, kBackwardStep>(to + kRows, g.out, head, tile, first);
    copy_queries(step_queries[step % 2], a, g, head, tile, first);
    end_copies();
  };
  copy_rows<Rows, kTreeTile>(own_keys, a.k, kv_head, tile, tile.number * kTreeTile);
  copy_rows<Rows, kTreeTile>(own_values, a.v, kv_head, tile, tile.number * kTreeTile);
  copy_step(0);
  const int first_key = tile.number * kTreeTile + l.first_row;
  const float scale = a.scale * kLog2e;
  float key_sums[kDim / 8][4] = {}, value_sums[kDim / 8][4] = {};
  for (int step = 0; step < group * steps; ++step) {
    wait_for_copies<0>();
    publish_copies();
    __syncthreads();
    if (step + 1 < group * steps) copy_step(step + 1);
    const int first = first_query(step);
    const StepQueries& of_queries = step_queries[step % 2];
    if (!Products::kTogether &&
        (first + kBackwardStep <= first_key ||
         (first_key >= tile.prompt_tokens && of_queries.start[0] >= first_key + kWarpRows)))
      continue;
    const Bf16* q = shared + step % 2 * 2 * kRows;
    // Rows are keys here, and columns are queries.
    float scores[kBlocks][4] = {}, grads[kBlocks][4] = {};
    Products::template multiply<kBackwardStep>(scores, own_keys, q, l);
    Products::template multiply<kBackwardStep>(grads, own_values, q + kRows, l);
    const bool all = all_see(tile, first, tile.number * kTreeTile, kTreeTile);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int query = 8 * i + l.column() + j % 2;
        weigh(scores[i][j], grads[i][j], scale, of_queries.lse[query] * kLog2e, of_queries.delta[query],
              all || sees(tile, first + query, of_queries.start[query], first_key + l.row() + j / 2 * 8));
      }
    Products::template add_weighted<kBackwardStep>(value_sums, scores, q + kRows, l);
    Products::template add_weighted<kBackwardStep>(key_sums, grads, q, l);
  }
  __syncthreads();
  store_rows<Rows>(key_sums, {a.scale, a.scale}, own_keys, g.k, kv_head, tile, l);
  store_rows<Rows>(value_sums, {1, 1}, own_keys, g.v, kv_head, tile, l);
}

}  // namespace

void attend_trees_backward(const TreeAttention& a, const TreeGradients& g, Stream stream) {
  if (a.tile_count == 0) return;
  with_head_dim(a.head_dim, [&](auto dim) {
    constexpr int kDim = decltype(dim)::value;
    launch_tiles(attention_of_trees_dq<kDim>, a.tile_count * a.heads,
                 4 * kBackwardStep * PaddedRows<kDim>::kPitch, stream, a, g);
    launch_tiles(attention_of_trees_dkv<kDim>, a.tile_count * a.kv_heads,
                 (2 * kTreeTile + 4 * kBackwardStep) * PaddedRows<kDim>::kPitch, stream, a, g);
  });
  check_launch("attend_trees_backward");
}

}  // namespace dpo::cuda
