// Gradients of attention over trees with Hopper's warp-group matmuls (tree_groups.cuh).
#pragma once

#include "ops/cuda/tree_gradients.cuh"
#include "ops/cuda/tree_groups.cuh"

namespace dpo::cuda {

// Numbers of queries or keys that a block processes per step.
constexpr int kGroupQueryStep = 64;
template <int kDim>
constexpr int kGroupKeyStep = kDim <= 64 ? 64 : 32;

// True if a block keeps its queries in registers rather than in shared memory.
template <int kDim>
constexpr bool kQueriesInRegisters = kDim > 64;

// Elements of a block's shared memory.
template <int kDim>
constexpr int kGroupQueryElements =
    ((kQueriesInRegisters<kDim> ? 0 : 2 * kTreeTile) + 3 * 2 * kGroupQueryStep) * kDim;
template <int kDim>
constexpr int kGroupKeyElements = (2 * kTreeTile + 3 * 2 * kGroupKeyStep<kDim>)*kDim;

#ifdef DPO_WARP_GROUPS

// Three places in shared memory: for the step that is accumulated, the step that is multiplied, and the step
// that is copied.
struct StepPlaces {
  int added = 0, multiplied = 1, copied = 2;
  __device__ void advance() {
    const int free = added;
    added = multiplied;
    multiplied = copied;
    copied = free;
  }
};

// Computes the gradients of the queries of a block's tile. Results of one step are accumulated during the
// next step.
template <int kDim>
__device__ void query_gradients_as_group(const TreeAttention& a, const TreeGradients& g) {
  using Rows = PanelRows<kDim>;
  constexpr int kStep = kGroupQueryStep, kRows = kStep * kDim, kOwn = kTreeTile * kDim;
  __shared__ float deltas[kTreeTile];
  constexpr bool kInRegisters = kQueriesInRegisters<kDim>;
  Bf16* own = tile_memory();                           // queries and output gradients
  Bf16* shared = own + (kInRegisters ? 0 : 2 * kOwn);  // keys and values of three steps
  if (kInRegisters) own = shared + 2 * kRows;          // where step 1 will be
  const QueryTile block(a);
  const TreeTile& tile = block.tile;
  const Lane l;
  const KeySteps<kStep> steps{tile};
  const auto keys_at = [&](int place) { return shared + place * 2 * kRows; };
  const auto copy_step = [&](int step, int place) {
    copy_rows<Rows, kStep>(keys_at(place), a.k, block.kv_head, tile, steps.first_key(step));
    copy_rows<Rows, kStep>(keys_at(place) + kRows, a.v, block.kv_head, tile, steps.first_key(step));
    end_copies();
  };
  copy_rows<Rows, kTreeTile>(own, a.q, block.head, tile, tile.number * kTreeTile);
  copy_rows<Rows, kTreeTile>(own + kOwn, g.out, block.head, tile, tile.number * kTreeTile);
  end_copies();
  StepPlaces places;
  copy_step(0, places.added);
  wait_for_copies<0>();
  publish_copies();
  __syncthreads();
  compute_delta<Rows>(deltas, own + kOwn, a, g, block);
  Left q[kInRegisters ? kDim / 16 : 1], grad[kInRegisters ? kDim / 16 : 1], rows[kStep / 16];
  if constexpr (kInRegisters)
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i) {
      q[i] = left_at<Rows>(own, 16 * i, l);
      grad[i] = left_at<Rows>(own + kOwn, 16 * i, l);
    }
  __syncthreads();
  if (steps.count() > 1) copy_step(1, places.multiplied);
  const Queries queries(a, tile, l);
  const QueryGradients of_queries(a, block, queries, deltas, l);
  const int start = last_start(a, tile, tile.number * kTreeTile, kTreeTile);
  const float scale = a.scale * kLog2e;
  float scores[kStep / 8][4] = {}, grads[kStep / 8][4] = {}, sums[kDim / 8][4] = {};
  const auto begin_step = [&](int place) {
    const std::uint64_t keys = matrix_at(keys_at(place)), values = matrix_after(keys, kRows);
    if constexpr (kInRegisters) {
      begin_multiply<kDim>(scores, q, keys);
      begin_multiply<kDim>(grads, grad, values);
    } else {
      begin_multiply<kDim, kStep>(scores, matrix_at(own), keys);
      begin_multiply<kDim, kStep>(grads, matrix_at(own + kOwn), values);
    }
    end_matmuls();
  };
  const auto begin_add = [&](int place) {
    begin_add_weighted<kDim, kStep>(sums, rows, matrix_at(keys_at(place)));
    end_matmuls();
  };
  const auto weigh_step = [&](int step) {
    take_sums(scores);
    take_sums(grads);
    of_queries.weigh_keys(scores, grads, scale, tile, queries, start, steps.first_key(step), l);
  };
  begin_matmuls();
  begin_step(places.added);
  wait_for_matmuls<0>();
  weigh_step(0);
  round_all<kStep>(rows, grads);
  for (int step = 0; step + 1 < steps.count(); ++step) {
    wait_for_copies<0>();
    publish_copies();
    __syncthreads();  // the next step has arrived, and no thread reads what the one after it overwrites
    begin_matmuls();
    begin_step(places.multiplied);
    begin_add(places.added);
    if (step + 2 < steps.count()) copy_step(step + 2, places.copied);
    places.advance();
    wait_for_matmuls<1>();
    weigh_step(step + 1);
    wait_for_matmuls<0>();
    take_sums(sums);
    round_all<kStep>(rows, grads);
  }
  begin_matmuls();
  begin_add(places.added);
  wait_for_matmuls<0>();
  take_sums(sums);
  __syncthreads();
  store_rows<Rows>(sums, {a.scale, a.scale}, shared, g.q, block.head, tile, l);
}

// Computes the gradients of the keys and values of a block's tile, pipelined in the same way. Rows are keys
// here, and columns are queries.
template <int kDim>
__device__ void key_gradients_as_group(const TreeAttention& a, const TreeGradients& g) {
  using Rows = PanelRows<kDim>;
  constexpr int kStep = kGroupKeyStep<kDim>, kRows = kStep * kDim, kOwn = kTreeTile * kDim;
  __shared__ StepQueries<kStep> step_queries[3];
  Bf16* own_keys = tile_memory();
  Bf16* own_values = own_keys + kOwn;
  Bf16* shared = own_values + kOwn;  // queries and output gradients of three steps
  const KeyTile<kStep> block(a);
  const TreeTile& tile = block.tile;
  const Lane l;
  const auto queries_at = [&](int place) { return shared + place * 2 * kRows; };
  QueryStep next = block.first_step();  // next step to copy
  const auto copy_step = [&](int place) {
    copy_rows<Rows, kStep>(queries_at(place), a.q, next.head, tile, next.first);
    copy_rows<Rows, kStep>(queries_at(place) + kRows, g.out, next.head, tile, next.first);
    step_queries[place].copy(a, g, next.head, tile, next.first);
    end_copies();
    next = block.after(next);
  };
  copy_rows<Rows, kTreeTile>(own_keys, a.k, block.kv_head, tile, block.first_key());
  copy_rows<Rows, kTreeTile>(own_values, a.v, block.kv_head, tile, block.first_key());
  const int count = block.count();
  StepPlaces places;
  copy_step(places.added);
  if (count > 1) copy_step(places.multiplied);
  const float scale = a.scale * kLog2e;
  Left weights[kStep / 16], rows[kStep / 16];
  float scores[kStep / 8][4] = {}, grads[kStep / 8][4] = {};
  float key_sums[kDim / 8][4] = {}, value_sums[kDim / 8][4] = {};
  const auto begin_step = [&](int place) {
    const std::uint64_t queries = matrix_at(queries_at(place));
    begin_multiply<kDim, kStep>(scores, matrix_at(own_keys), queries);
    begin_multiply<kDim, kStep>(grads, matrix_at(own_values), matrix_after(queries, kRows));
    end_matmuls();
  };
  QueryStep now = block.first_step();  // next step to weigh
  const auto weigh_step = [&](int place) {
    take_sums(scores);
    take_sums(grads);
    weigh_queries(scores, grads, scale, tile, now.first, step_queries[place], l);
    now = block.after(now);
  };
  const auto round_step = [&] {
    round_all<kStep>(weights, scores);
    round_all<kStep>(rows, grads);
  };
  const auto begin_add = [&](int place) {
    const std::uint64_t queries = matrix_at(queries_at(place));
    begin_add_weighted<kDim, kStep>(value_sums, weights, matrix_after(queries, kRows));
    begin_add_weighted<kDim, kStep>(key_sums, rows, queries);
    end_matmuls();
  };
  if (count > 1)
    wait_for_copies<1>();
  else
    wait_for_copies<0>();
  publish_copies();
  __syncthreads();
  begin_matmuls();
  begin_step(places.added);
  wait_for_matmuls<0>();
  weigh_step(places.added);
  round_step();
  for (int step = 0; step + 1 < count; ++step) {
    wait_for_copies<0>();
    publish_copies();
    __syncthreads();
    begin_matmuls();
    begin_step(places.multiplied);
    begin_add(places.added);
    if (step + 2 < count) copy_step(places.copied);
    places.advance();
    wait_for_matmuls<1>();
    weigh_step(places.added);
    wait_for_matmuls<0>();
    take_sums(key_sums);
    take_sums(value_sums);
    round_step();
  }
  begin_matmuls();
  begin_add(places.added);
  wait_for_matmuls<0>();
  take_sums(key_sums);
  take_sums(value_sums);
  __syncthreads();
  store_rows<Rows>(key_sums, {a.scale, a.scale}, own_keys, g.k, block.kv_head, tile, l);
  store_rows<Rows>(value_sums, {1, 1}, own_keys, g.v, block.kv_head, tile, l);
}

#endif

}  // namespace dpo::cuda
