// Attention over trees: a block takes a tile of queries of one head. The keys and values that they meet come
// to shared memory in steps, the next while this one is computed.
#include "ops/cuda/tree_steps.cuh"

namespace dpo::cuda {
namespace {

constexpr int kForwardStep = 64;

// Blocks that a multiprocessor should have room for, which limits registers: the fastest of those measured on
// an H200.
template <int kDim>
constexpr int kForwardBlocks = kDim <= 96 ? 3 : 2;

// The largest score so far, and the sum of exponentials below it; sums of four lanes are not added yet.
struct SoftMax {
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  // Scores become weights; returns by what earlier weights must be multiplied.
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

template <int kDim>
__global__ void __launch_bounds__(kTreeThreads, kForwardBlocks<kDim>) attention_of_trees(TreeAttention a) {
  constexpr int kRows = kForwardStep * PaddedRows<kDim>::kPitch;
  Bf16* shared = tile_memory();  // keys and values, of two steps
  const int head = static_cast<int>(blockIdx.x % a.heads);
  const int kv_head = head / static_cast<int>(a.heads / a.kv_heads);
  const TreeTile tile = a.tiles[blockIdx.x / a.heads];
  const Lane l;
  const KeySteps<kForwardStep> steps{tile};
  const auto copy_step = [&](int step) {
    Bf16* to = shared + step % 2 * 2 * kRows;
    copy_rows<PaddedRows<kDim>, kForwardStep>(to, a.k, kv_head, tile, steps.first_key(step));
    copy_rows<PaddedRows<kDim>, kForwardStep>(to + kRows, a.v, kv_head, tile, steps.first_key(step));
    end_copies();
  };
  copy_rows<PaddedRows<kDim>, kTreeTile>(shared + 2 * kRows, a.q, head, tile, tile.number * kTreeTile);
  end_copies();
  copy_step(0);
  wait_for_copies<1>();
  __syncthreads();
  Left q[kDim / 16];
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) q[i] = left_at<kDim>(shared + 2 * kRows, 16 * i, l);
  const Queries queries(a, tile, l);
  const float scale = a.scale * kLog2e;
  SoftMax soft_max;
  float sums[kDim / 8][4] = {};
  for (int step = 0; step < steps.count(); ++step) {
    wait_for_copies<0>();
    __syncthreads();  // the step has come, and nobody reads what the next one overwrites
    if (step + 1 < steps.count()) copy_step(step + 1);
    const int first_key = steps.first_key(step);
    if (!queries.may_see(tile, first_key, kForwardStep, l)) continue;
    const Bf16* keys = shared + step % 2 * 2 * kRows;
    float scores[kForwardStep / 8][4] = {};
    multiply<kDim, kForwardStep>(
        scores, [&](int i) { return q[i]; }, keys, l.lane);
    if (!all_see(tile, tile.number * kTreeTile, first_key, kForwardStep)) {
#pragma unroll
      for (int i = 0; i < kForwardStep / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (!sees(tile, queries.number[j / 2], queries.start[j / 2],
                    first_key + 8 * i + l.column() + j % 2))
            scores[i][j] = -INFINITY;
    }
    float earlier[2];
    soft_max.add(scores, scale, earlier);
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] *= earlier[j / 2];
    add_weighted<kDim, kForwardStep>(sums, scores, keys + kRows, l.lane);
  }
  float factors[2];
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_four(soft_max.sum[half]);
    factors[half] = 1 / sum;
    if (queries.exists(tile, half) && l.lane % 4 == 0)
      a.lse[head * a.tokens + token_of(tile, queries.number[half])] =
          soft_max.largest[half] * a.scale + logf(sum);
  }
  __syncthreads();
  store_rows<PaddedRows<kDim>>(sums, factors, shared, a.out, head, tile, l);
}

}  // namespace

bool has_tree_code() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, attention_of_trees<64>) == cudaSuccess)
    return attributes.ptxVersion >= 80;
  cudaGetLastError();  // so that nobody else finds it
  return false;
}

bool attends_trees(std::int64_t head_dim) {
  return with_head_dim(head_dim, [](auto) {});
}

void attend_trees(const TreeAttention& a, Stream stream) {
  if (a.tile_count == 0) return;
  with_head_dim(a.head_dim, [&](auto dim) {
    constexpr int kDim = decltype(dim)::value;
    launch_tiles(attention_of_trees<kDim>, a.tile_count * a.heads,
                 4 * kForwardStep * PaddedRows<kDim>::kPitch, stream, a);
  });
  check_launch("attend_trees");
}

}  // namespace dpo::cuda
