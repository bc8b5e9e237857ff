// Gradients of attention over trees. Query gradients work as in the forward pass. For key and value gradients
// a block takes a tile of keys and processes the queries that see them. No sum is shared between blocks.
#include <map>
#include <mutex>

#include "ops/cuda/tree_gradient_groups.cuh"

namespace dpo::cuda {
namespace {

constexpr int kBackwardStep = 32;

// Like kForwardBlocks in trees.cu, for the gradients of queries, and of keys and values.
#ifdef DPO_WARP_GROUPS
__device__ const bool in_groups = true;
template <int kDim>
constexpr int kQueryBlocks = kDim <= 96 ? 3 : 2;
template <int kDim>
constexpr int kKeyBlocks = kDim % 64 == 0 ? 2 : 3;
#else
__device__ const bool in_groups = false;
template <int kDim>
constexpr int kQueryBlocks = kDim <= 64   ? 4
                             : kDim <= 96 ? 3
                                          : 2;
template <int kDim>
constexpr int kKeyBlocks = kQueryBlocks<kDim>;
#endif

template <int kDim>
__device__ void query_gradients_by_warps(const TreeAttention& a, const TreeGradients& g) {
  using Rows = PaddedRows<kDim>;
  constexpr int kRows = kBackwardStep * Rows::kPitch, kBlocks = kBackwardStep / 8;
  __shared__ float deltas[kTreeTile];
  Bf16* shared = tile_memory();  // keys and values of two steps
  const QueryTile block(a);
  const TreeTile& tile = block.tile;
  const Lane l;
  const KeySteps<kBackwardStep> steps{tile};
  const auto copy_step = [&](int step) {
    Bf16* to = shared + step % 2 * 2 * kRows;
    copy_rows<Rows, kBackwardStep>(to, a.k, block.kv_head, tile, steps.first_key(step));
    copy_rows<Rows, kBackwardStep>(to + kRows, a.v, block.kv_head, tile, steps.first_key(step));
    end_copies();
  };
  Bf16* own = shared;  // queries and output gradients are where both steps will be
  copy_rows<Rows, kTreeTile>(own, a.q, block.head, tile, tile.number * kTreeTile);
  copy_rows<Rows, kTreeTile>(own + 2 * kRows, g.out, block.head, tile, tile.number * kTreeTile);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  compute_delta<Rows>(deltas, own + 2 * kRows, a, g, block);
  Left q[kDim / 16], grad[kDim / 16];
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    q[i] = left_at<Rows>(own, 16 * i, l);
    grad[i] = left_at<Rows>(own + 2 * kRows, 16 * i, l);
  }
  __syncthreads();
  copy_step(0);
  const Queries queries(a, tile, l);
  const QueryGradients of_queries(a, block, queries, deltas, l);
  const int start = last_start(a, tile, tile.number * kTreeTile, kTreeTile);
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
    of_queries.weigh_keys(scores, grads, scale, tile, queries, start, first_key, l);
    add_weighted<kDim, kBackwardStep>(sums, grads, keys, l.lane);
  }
  __syncthreads();
  store_rows<Rows>(sums, {a.scale, a.scale}, shared, g.q, block.head, tile, l);
}

template <int kDim>
__device__ void key_gradients_by_warps(const TreeAttention& a, const TreeGradients& g) {
  using Rows = PaddedRows<kDim>;
  constexpr int kOwn = kTreeTile * Rows::kPitch, kRows = kBackwardStep * Rows::kPitch;
  constexpr int kBlocks = kBackwardStep / 8;
  __shared__ StepQueries<kBackwardStep> step_queries[2];
  Bf16* own_keys = tile_memory();
  Bf16* own_values = own_keys + kOwn;
  Bf16* shared = own_values + kOwn;  // queries and output gradients of two steps
  const KeyTile<kBackwardStep> block(a);
  const TreeTile& tile = block.tile;
  const Lane l;
  const auto copy_step = [&](int step, const QueryStep& queries) {
    Bf16* to = shared + step % 2 * 2 * kRows;
    copy_rows<Rows, kBackwardStep>(to, a.q, queries.head, tile, queries.first);
    copy_rows<Rows, kBackwardStep>(to + kRows, g.out, queries.head, tile, queries.first);
    step_queries[step % 2].copy(a, g, queries.head, tile, queries.first);
    end_copies();
  };
  copy_rows<Rows, kTreeTile>(own_keys, a.k, block.kv_head, tile, block.first_key());
  copy_rows<Rows, kTreeTile>(own_values, a.v, block.kv_head, tile, block.first_key());
  QueryStep now = block.first_step();
  copy_step(0, now);
  const int first_key = block.first_key() + l.first_row;
  const float scale = a.scale * kLog2e;
  float key_sums[kDim / 8][4] = {}, value_sums[kDim / 8][4] = {};
  for (int step = 0; step < block.count(); ++step) {
    wait_for_copies<0>();
    __syncthreads();
    const int first = now.first;
    now = block.after(now);
    if (step + 1 < block.count()) copy_step(step + 1, now);
    const StepQueries<kBackwardStep>& queries = step_queries[step % 2];
    if (first + kBackwardStep <= first_key ||
        (first_key >= tile.prompt_tokens && queries.start[0] >= first_key + kWarpRows))
      continue;
    const Bf16* q = shared + step % 2 * 2 * kRows;
    // Rows are keys here, and columns are queries.
    float scores[kBlocks][4] = {}, grads[kBlocks][4] = {};
    multiply<kDim, kBackwardStep>(
        scores, [&](int i) { return left_at<Rows>(own_keys, 16 * i, l); }, q, l.lane);
    multiply<kDim, kBackwardStep>(
        grads, [&](int i) { return left_at<Rows>(own_values, 16 * i, l); }, q + kRows, l.lane);
    weigh_queries(scores, grads, scale, tile, first, queries, l);
    add_weighted<kDim, kBackwardStep>(value_sums, scores, q + kRows, l.lane);
    add_weighted<kDim, kBackwardStep>(key_sums, grads, q, l.lane);
  }
  __syncthreads();
  store_rows<Rows>(key_sums, {a.scale, a.scale}, own_keys, g.k, block.kv_head, tile, l);
  store_rows<Rows>(value_sums, {1, 1}, own_keys, g.v, block.kv_head, tile, l);
}

template <int kDim>
__global__ void __launch_bounds__(kTreeThreads, kQueryBlocks<kDim>)
    attention_of_trees_dq(TreeAttention a, TreeGradients g) {
#ifdef DPO_WARP_GROUPS
  if constexpr (kDim % 64 == 0) return query_gradients_as_group<kDim>(a, g);
#endif
  query_gradients_by_warps<kDim>(a, g);
}

template <int kDim>
__global__ void __launch_bounds__(kTreeThreads, kKeyBlocks<kDim>)
    attention_of_trees_dkv(TreeAttention a, TreeGradients g) {
#ifdef DPO_WARP_GROUPS
  if constexpr (kDim % 64 == 0) return key_gradients_as_group<kDim>(a, g);
#endif
  key_gradients_by_warps<kDim>(a, g);
}

}  // namespace

bool attends_in_groups(std::int64_t head_dim) {
  static std::mutex mutex;
  static std::map<int, bool> has_code;  // per GPU, because a machine may have several kinds
  const std::lock_guard lock(mutex);
  int device = 0;
  cudaGetDevice(&device);
  auto found = has_code.find(device);
  if (found == has_code.end()) {
    bool value = false;
    cudaMemcpyFromSymbol(&value, in_groups, sizeof(value));
    check_launch("attends_in_groups");
    found = has_code.emplace(device, value).first;
  }
  return found->second && head_dim % 64 == 0;
}

void attend_trees_backward(const TreeAttention& a, const TreeGradients& g, Stream stream) {
  if (a.tile_count == 0) return;
  with_head_dim(a.head_dim, [&](auto dim) {
    constexpr int kDim = decltype(dim)::value;
    const bool groups = attends_in_groups(kDim);  // these kernels need more shared memory
    launch_tiles(attention_of_trees_dq<kDim>, a.tile_count * a.heads,
                 groups ? kGroupQueryElements<kDim> : 4 * kBackwardStep * PaddedRows<kDim>::kPitch, stream, a,
                 g);
    launch_tiles(
        attention_of_trees_dkv<kDim>, a.tile_count * a.kv_heads,
        groups ? kGroupKeyElements<kDim> : (2 * kTreeTile + 4 * kBackwardStep) * PaddedRows<kDim>::kPitch,
        stream, a, g);
  });
  check_launch("attend_trees_backward");
}

}  // namespace dpo::cuda
