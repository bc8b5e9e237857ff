// Queries of a tile and the keys that they meet.
#pragma once

#include "ops/cuda/tiles.cuh"

namespace dpo::cuda {

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
  const int bytes = elements * static_cast<int>(sizeof(Bf16));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<static_cast<unsigned>(blocks), kTreeThreads, static_cast<unsigned>(bytes),
           static_cast<cudaStream_t>(stream)>>>(arguments...);
}

}  // namespace dpo::cuda
