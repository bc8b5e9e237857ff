// Shared by the kernels: launch sizes, dispatch by type, vectorized access.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "ops/cuda/kernels.h"

namespace dpo::cuda {

constexpr int kThreads = 256;

inline unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

inline void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA kernel ") + kernel + ": " + cudaGetErrorString(error));
}

template <class Action>
void with_type(Type type, const Action& action) {
  switch (type) {
    case Type::float32: return action(float{});
    case Type::bfloat16: return action(__nv_bfloat16{});
    case Type::float16: return action(__half{});
  }
}

inline bool is_aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

// Elements that are read or written in one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

// Returns the elements from `data` on as a pack.
template <int kCount, class T>
__device__ Pack<T, kCount>* pack_at(T* data) {
  return reinterpret_cast<Pack<T, kCount>*>(data);
}
template <int kCount, class T>
__device__ const Pack<T, kCount>* pack_at(const T* data) {
  return reinterpret_cast<const Pack<T, kCount>*>(data);
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

__device__ inline void assign(float& to, float from) { to = from; }
__device__ inline void assign(__nv_bfloat16& to, float from) { to = __float2bfloat16_rn(from); }
__device__ inline void assign(__half& to, float from) { to = __float2half_rn(from); }

__device__ inline std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace dpo::cuda
