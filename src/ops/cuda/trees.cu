// Attention over trees: a block takes a tile of queries of one head. The keys and values they attend to are
// copied to shared memory in steps, the next step while this one is computed.
#include "ops/cuda/tree_groups.cuh"

namespace dpo::cuda {
namespace {

constexpr int kForwardStep = 64;

// Blocks that a multiprocessor should have room for, which limits registers. These were the fastest on an
// H200.
#ifdef DPO_WARP_GROUPS
template <int kDim>
constexpr int kForwardBlocks = kDim <= 64   ? 4
                               : kDim <= 96 ? 3
                                            : 2;
#else
template <int kDim>
constexpr int kForwardBlocks = kDim <= 96 ? 3 : 2;
#endif

template <int kDim>
__device__ void attend_by_warps(const TreeAttention& a) {
  using Rows = PaddedRows<kDim>;
  constexpr int kRows = kForwardStep * Rows::kPitch;
  Bf16* shared = tile_memory();  // keys and values of two steps
  const QueryTile block(a);
  const TreeTile& tile = block.tile;
  const Lane l;
  const KeySteps<kForwardStep> steps{tile};
  const auto copy_step = [&](int step) {
    Bf16* to = shared + step % 2 * 2 * kRows;
    copy_rows<Rows, kForwardStep>(to, a.k, block.kv_head, tile, steps.first_key(step));
    copy_rows<Rows, kForwardStep>(to + kRows, a.v, block.kv_head, tile, steps.first_key(step));
    end_copies();
  };
  copy_rows<Rows, kTreeTile>(shared + 2 * kRows, a.q, block.head, tile, tile.number * kTreeTile);
  end_copies();
  copy_step(0);
  wait_for_copies<1>();
  __syncthreads();
  Left q[kDim / 16];
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) q[i] = left_at<Rows>(shared + 2 * kRows, 16 * i, l);
  const Queries queries(a, tile, l);
  const int start = last_start(a, tile, tile.number * kTreeTile, kTreeTile);
  const float scale = a.scale * kLog2e;
  SoftMax soft_max;
  float sums[kDim / 8][4] = {};
  for (int step = 0; step < steps.count(); ++step) {
    wait_for_copies<0>();
    __syncthreads();  // the step has arrived, and no thread reads what the next one overwrites
    if (step + 1 < steps.count()) copy_step(step + 1);
    const int first_key = steps.first_key(step);
    if (!queries.may_see(tile, first_key, kForwardStep, l)) continue;
    const Bf16* keys = shared + step % 2 * 2 * kRows;
    float scores[kForwardStep / 8][4] = {}, earlier[2];
    multiply<kDim, kForwardStep>(
        scores, [&](int i) { return q[i]; }, keys, l.lane);
    hide(scores, tile, queries, start, first_key, l);
    soft_max.add(scores, scale, earlier);
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] *= earlier[j / 2];
    add_weighted<kDim, kForwardStep>(sums, scores, keys + kRows, l.lane);
  }
  __syncthreads();
  store_attention<Rows>(sums, soft_max, queries, a, block, l);
}

template <int kDim>
__global__ void __launch_bounds__(kTreeThreads, kForwardBlocks<kDim>) attention_of_trees(TreeAttention a) {
#ifdef DPO_WARP_GROUPS
  if constexpr (kDim % 64 == 0) return attend_as_group<kDim>(a);
#endif
  attend_by_warps<kDim>(a);
}

}  // namespace

bool has_tree_code() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, attention_of_trees<64>) == cudaSuccess)
    return attributes.ptxVersion >= 80;
  cudaGetLastError();  // clears the error, so that a later check does not report it
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
