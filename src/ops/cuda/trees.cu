// A block of four warps takes a tile of one head: its queries against their keys, or for the gradients of
// keys and values its keys against the queries that see them. Each warp keeps 16 rows of the tile; what they
// meet comes to shared memory in steps, the next while this one is computed. Nothing is added by several
// blocks.
#include "ops/cuda/trees.h"

#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_cores.cuh"

namespace dpo::cuda {
namespace {

using Half = __nv_bfloat16;

constexpr int kTreeWarps = 4, kTreeThreads = 32 * kTreeWarps;
constexpr int kWarpRows = kTreeTile / kTreeWarps;
static_assert(kWarpRows == 16);
constexpr int kForwardStep = 64, kBackwardStep = 32;
// Blocks that a multiprocessor should have room for, which limits registers: the fastest of those measured on
// an H200.
template <int kDim>
constexpr int kForwardBlocks = kDim <= 96 ? 3 : 2;
template <int kDim>
constexpr int kBackwardBlocks = kDim <= 64   ? 4
                                : kDim <= 96 ? 3
                                             : 2;
constexpr float kLog2e = 1.44269504088896340736f;

// A row in shared memory has 16 bytes more than the head, so that rows are in different banks.
template <int kDim>
constexpr int kPitch = kDim + 8;

struct Lane {
  int lane = static_cast<int>(threadIdx.x) % 32;
  int first_row = static_cast<int>(threadIdx.x) / 32 * kWarpRows;  // of the warp in its tile
  __device__ int row() const { return lane / 4; }                  // and row() + 8
  __device__ int column() const { return lane % 4 * 2; }           // and column() + 1, of each block
};

__device__ int token_of(const TreeTile& tile, int number) {
  return number < tile.prompt_tokens ? tile.prompt + number : tile.responses + number - tile.prompt_tokens;
}

__device__ bool sees(const TreeTile& tile, int query, int query_start, int key) {
  return key <= query && (key < tile.prompt_tokens || key >= query_start);
}

// Whether every query from `queries` on sees all of these keys.
__device__ bool all_see(const TreeTile& tile, int queries, int keys, int key_count) {
  const int last = keys + key_count - 1;
  return last <= queries && last < tile.prompt_tokens;
}

__device__ Half* head_of(const TreeArray& array, int head) {
  return static_cast<Half*>(array.data) + head * array.head;
}

// Begins to copy rows of a head from number `first` of the tree on; zeros after its last.
template <int kDim, int kRows>
__device__ void copy_rows(Half* to, const TreeArray& array, int head, const TreeTile& tile, int first) {
  constexpr int kPacks = kDim / 8;
  const Half* from = head_of(array, head);
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kTreeThreads) {
    const int row = i / kPacks, column = i % kPacks * 8;
    const bool exists = first + row < tile.tokens;
    const std::int64_t token = exists ? token_of(tile, first + row) : 0;
    copy_async<16>(to + row * kPitch<kDim> + column, from + token * array.token + column, exists);
  }
}

// Rows of a warp as a left operand, 16 columns from `column` on.
template <int kDim>
__device__ Left left_at(const Half* rows, int column, int lane) {
  Left left;
  load_blocks(left.blocks, rows + lane % 16 * kPitch<kDim> + column + lane / 16 * 8);
  return left;
}

// products += rows * (16 * kPairs rows of `columns`)^T; left(i) are the rows' 16 columns from 16 * i on.
template <int kDim, int kPairs, class LeftOf>
__device__ void multiply(float (&products)[2 * kPairs][4], const LeftOf& left_of, const Half* columns,
                         int lane) {
  const Half* at = columns + (lane / 16 * 8 + lane % 8) * kPitch<kDim> + lane / 8 % 2 * 8;
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    const Left left = left_of(i);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      Right right;
      load_blocks(right.blocks, at + pair * 16 * kPitch<kDim> + 16 * i);
      multiply_add(products[2 * pair], left, right.blocks[0], right.blocks[1]);
      multiply_add(products[2 * pair + 1], left, right.blocks[2], right.blocks[3]);
    }
  }
}

// sums += weights (16 x 16 * kPairs, rounded) * rows (16 * kPairs x kDim).
template <int kDim, int kPairs>
__device__ void add_weighted(float (&sums)[kDim / 8][4], const float (&weights)[2 * kPairs][4],
                             const Half* rows, int lane) {
  const Half* at = rows + (lane / 8 % 2 * 8 + lane % 8) * kPitch<kDim> + lane / 16 * 8;
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    const float(&a)[4] = weights[2 * pair], (&b)[4] = weights[2 * pair + 1];
    const Left left{{as_pair(a[0], a[1]), as_pair(a[2], a[3]), as_pair(b[0], b[1]), as_pair(b[2], b[3])}};
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i) {
      Right right;
      load_blocks_transposed(right.blocks, at + pair * 16 * kPitch<kDim> + 16 * i);
      multiply_add(sums[2 * i], left, right.blocks[0], right.blocks[1]);
      multiply_add(sums[2 * i + 1], left, right.blocks[2], right.blocks[3]);
    }
  }
}

// Writes a warp's rows, by way of shared memory that is its own, so that whole rows are written.
template <int kDim>
__device__ void store_rows(const float (&sums)[kDim / 8][4], const float (&factors)[2], Half* shared,
                           const TreeArray& array, int head, const TreeTile& tile, const Lane& l) {
  Half* mine = shared + l.first_row * kPitch<kDim>;
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<std::uint32_t*>(mine + (l.row() + 8 * half) * kPitch<kDim> + 8 * i + l.column()) =
          as_pair(sums[i][2 * half] * factors[half], sums[i][2 * half + 1] * factors[half]);
  __syncwarp();
  constexpr int kPacks = kDim / 8;
  Half* to = head_of(array, head);
  for (int i = l.lane; i < kWarpRows * kPacks; i += 32) {
    const int row = i / kPacks, column = i % kPacks * 8;
    const int number = tile.number * kTreeTile + l.first_row + row;
    if (number < tile.tokens)
      *pack_at<8>(to + token_of(tile, number) * array.token + column) =
          *pack_at<8>(mine + row * kPitch<kDim> + column);
  }
  __syncwarp();
}

// The keys that a tile of queries meets, in steps: those of the prompt, then those of its own responses.
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

// exp2f() without its care for subnormal results.
__device__ float power_of_2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ float max_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// What a lane knows of its two queries.
struct Queries {
  int number[2], start[2];
  __device__ Queries(const TreeAttention& a, const TreeTile& tile, const Lane& l) {
    for (int half = 0; half < 2; ++half) {
      number[half] = tile.number * kTreeTile + l.first_row + l.row() + 8 * half;
      start[half] = exists(tile, half) ? a.starts[token_of(tile, number[half])] : 0;
    }
  }
  __device__ bool exists(const TreeTile& tile, int half) const { return number[half] < tile.tokens; }

  // Whether some query of the warp may see some of these keys. Starts ascend, but for those after the tree.
  __device__ bool may_see(const TreeTile& tile, int keys, int key_count, const Lane& l) const {
    const int first_start = __shfl_sync(0xffffffffu, start[0], 0);
    const int last = tile.number * kTreeTile + l.first_row + kWarpRows - 1;
    return keys <= last && (keys < tile.prompt_tokens || keys + key_count > first_start);
  }
};

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
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kRows = kForwardStep * kPitch<kDim>;
  Half* shared = reinterpret_cast<Half*>(memory);  // keys and values, of two steps
  const int head = static_cast<int>(blockIdx.x % a.heads);
  const int kv_head = head / static_cast<int>(a.heads / a.kv_heads);
  const TreeTile tile = a.tiles[blockIdx.x / a.heads];
  const Lane l;
  const KeySteps<kForwardStep> steps{tile};
  const auto copy_step = [&](int step) {
    Half* to = shared + step % 2 * 2 * kRows;
    copy_rows<kDim, kForwardStep>(to, a.k, kv_head, tile, steps.first_key(step));
    copy_rows<kDim, kForwardStep>(to + kRows, a.v, kv_head, tile, steps.first_key(step));
    end_copies();
  };
  copy_rows<kDim, kTreeTile>(shared + 2 * kRows, a.q, head, tile, tile.number * kTreeTile);
  end_copies();
  copy_step(0);
  wait_for_copies<1>();
  __syncthreads();
  Left q[kDim / 16];
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i)
    q[i] = left_at<kDim>(shared + 2 * kRows + l.first_row * kPitch<kDim>, 16 * i, l.lane);
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
    const Half* keys = shared + step % 2 * 2 * kRows;
    float scores[kForwardStep / 8][4] = {};
    multiply<kDim, kForwardStep / 16>(
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
    add_weighted<kDim, kForwardStep / 16>(sums, scores, keys + kRows, l.lane);
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
  store_rows<kDim>(sums, factors, shared, a.out, head, tile, l);
}

// The products of two queries' outputs and their gradients. Two threads share a row.
template <int kDim>
__device__ void compute_delta(float* shared_delta, const Half* shared_grad, const TreeAttention& a,
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
      const auto grad = *pack_at<8>(shared_grad + row * kPitch<kDim> + column);
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
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kRows = kBackwardStep * kPitch<kDim>, kBlocks = kBackwardStep / 8;
  __shared__ float deltas[kTreeTile];
  Half* shared = reinterpret_cast<Half*>(memory);  // keys and values, of two steps
  const int head = static_cast<int>(blockIdx.x % a.heads);
  const int kv_head = head / static_cast<int>(a.heads / a.kv_heads);
  const TreeTile tile = a.tiles[blockIdx.x / a.heads];
  const Lane l;
  const KeySteps<kBackwardStep> steps{tile};
  const auto copy_step = [&](int step) {
    Half* to = shared + step % 2 * 2 * kRows;
    copy_rows<kDim, kBackwardStep>(to, a.k, kv_head, tile, steps.first_key(step));
    copy_rows<kDim, kBackwardStep>(to + kRows, a.v, kv_head, tile, steps.first_key(step));
    end_copies();
  };
  Half* own = shared;  // queries and gradients of outputs are where both steps will be
  copy_rows<kDim, kTreeTile>(own, a.q, head, tile, tile.number * kTreeTile);
  copy_rows<kDim, kTreeTile>(own + 2 * kRows, g.out, head, tile, tile.number * kTreeTile);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  compute_delta<kDim>(deltas, own + 2 * kRows, a, g, head, tile);
  Left q[kDim / 16], grad[kDim / 16];
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    q[i] = left_at<kDim>(own + l.first_row * kPitch<kDim>, 16 * i, l.lane);
    grad[i] = left_at<kDim>(own + 2 * kRows + l.first_row * kPitch<kDim>, 16 * i, l.lane);
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
    const Half* keys = shared + step % 2 * 2 * kRows;
    float scores[kBlocks][4] = {}, grads[kBlocks][4] = {};
    multiply<kDim, kBlocks / 2>(
        scores, [&](int i) { return q[i]; }, keys, l.lane);
    multiply<kDim, kBlocks / 2>(
        grads, [&](int i) { return grad[i]; }, keys + kRows, l.lane);
    const bool all = all_see(tile, tile.number * kTreeTile, first_key, kBackwardStep);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        weigh(scores[i][j], grads[i][j], scale, lse[j / 2], delta[j / 2],
              all || sees(tile, queries.number[j / 2], queries.start[j / 2],
                          first_key + 8 * i + l.column() + j % 2));
    add_weighted<kDim, kBlocks / 2>(sums, grads, keys, l.lane);
  }
  __syncthreads();
  store_rows<kDim>(sums, {a.scale, a.scale}, shared, g.q, head, tile, l);
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
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kOwn = kTreeTile * kPitch<kDim>, kRows = kBackwardStep * kPitch<kDim>;
  constexpr int kBlocks = kBackwardStep / 8, kPerTile = kTreeTile / kBackwardStep;
  __shared__ StepQueries step_queries[2];
  Half* own_keys = reinterpret_cast<Half*>(memory);
  Half* own_values = own_keys + kOwn;
  Half* shared = own_values + kOwn;  // queries and gradients of outputs, of two steps
  const int kv_head = static_cast<int>(blockIdx.x % a.kv_heads);
  const int group = static_cast<int>(a.heads / a.kv_heads);
  const TreeTile tile = a.tiles[blockIdx.x / a.kv_heads];
  const Lane l;
  const int steps = (tile.last + 1 - tile.number) * kPerTile;  // of a head
  const auto first_query = [&](int step) { return tile.number * kTreeTile + step % steps * kBackwardStep; };
  const auto copy_step = [&](int step) {
    const int head = kv_head * group + step / steps, first = first_query(step);
    Half* to = shared + step % 2 * 2 * kRows;
    copy_rows<kDim, kBackwardStep>(to, a.q, head, tile, first);
    copy_rows<kDim, kBackwardStep>(to + kRows, g.out, head, tile, first);
    copy_queries(step_queries[step % 2], a, g, head, tile, first);
    end_copies();
  };
  copy_rows<kDim, kTreeTile>(own_keys, a.k, kv_head, tile, tile.number * kTreeTile);
  copy_rows<kDim, kTreeTile>(own_values, a.v, kv_head, tile, tile.number * kTreeTile);
  copy_step(0);
  const Half* keys = own_keys + l.first_row * kPitch<kDim>;
  const Half* values = own_values + l.first_row * kPitch<kDim>;
  const int first_key = tile.number * kTreeTile + l.first_row;
  const float scale = a.scale * kLog2e;
  float key_sums[kDim / 8][4] = {}, value_sums[kDim / 8][4] = {};
  for (int step = 0; step < group * steps; ++step) {
    wait_for_copies<0>();
    __syncthreads();
    if (step + 1 < group * steps) copy_step(step + 1);
    const int first = first_query(step);
    const StepQueries& of_queries = step_queries[step % 2];
    if (first + kBackwardStep <= first_key ||
        (first_key >= tile.prompt_tokens && of_queries.start[0] >= first_key + kWarpRows))
      continue;
    const Half* q = shared + step % 2 * 2 * kRows;
    // Rows are keys here, and columns are queries.
    float scores[kBlocks][4] = {}, grads[kBlocks][4] = {};
    multiply<kDim, kBlocks / 2>(
        scores, [&](int i) { return left_at<kDim>(keys, 16 * i, l.lane); }, q, l.lane);
    multiply<kDim, kBlocks / 2>(
        grads, [&](int i) { return left_at<kDim>(values, 16 * i, l.lane); }, q + kRows, l.lane);
    const bool all = all_see(tile, first, tile.number * kTreeTile, kTreeTile);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int query = 8 * i + l.column() + j % 2;
        weigh(scores[i][j], grads[i][j], scale, of_queries.lse[query] * kLog2e, of_queries.delta[query],
              all || sees(tile, first + query, of_queries.start[query], first_key + l.row() + j / 2 * 8));
      }
    add_weighted<kDim, kBlocks / 2>(value_sums, scores, q + kRows, l.lane);
    add_weighted<kDim, kBlocks / 2>(key_sums, grads, q, l.lane);
  }
  __syncthreads();
  store_rows<kDim>(key_sums, {a.scale, a.scale}, own_keys, g.k, kv_head, tile, l);
  store_rows<kDim>(value_sums, {1, 1}, own_keys, g.v, kv_head, tile, l);
}

template <int kValue>
using HeadDim = std::integral_constant<int, kValue>;

// Calls action(head size as a type); false: there is no kernel for it.
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
  const int bytes = elements * static_cast<int>(sizeof(Half));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<static_cast<unsigned>(blocks), kTreeThreads, static_cast<unsigned>(bytes),
           static_cast<cudaStream_t>(stream)>>>(arguments...);
}

}  // namespace

bool attends_trees(std::int64_t head_dim) {
  return with_head_dim(head_dim, [](auto) {});
}

void attend_trees(const TreeAttention& a, Stream stream) {
  with_head_dim(a.head_dim, [&](auto dim) {
    constexpr int kDim = decltype(dim)::value;
    launch_tiles(attention_of_trees<kDim>, a.tile_count * a.heads, 4 * kForwardStep * kPitch<kDim>, stream,
                 a);
  });
  check_launch("attend_trees");
}

void attend_trees_backward(const TreeAttention& a, const TreeGradients& g, Stream stream) {
  with_head_dim(a.head_dim, [&](auto dim) {
    constexpr int kDim = decltype(dim)::value;
    launch_tiles(attention_of_trees_dq<kDim>, a.tile_count * a.heads, 4 * kBackwardStep * kPitch<kDim>,
                 stream, a, g);
    launch_tiles(attention_of_trees_dkv<kDim>, a.tile_count * a.kv_heads,
                 (2 * kTreeTile + 4 * kBackwardStep) * kPitch<kDim>, stream, a, g);
  });
  check_launch("attend_trees_backward");
}

}  // namespace dpo::cuda
