// Reads and writes several elements at a time.
#pragma once

#include "ops/cuda/launch.cuh"

namespace dpo::cuda {

template <class T, int kWidth>
__device__ inline Pack<T, kWidth> pack_at(const void* data, std::int64_t element) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(static_cast<const T*>(data) + element);
}

template <class T, int kWidth>
__device__ inline void store_pack(void* data, std::int64_t element, const Pack<T, kWidth>& pack) {
  *reinterpret_cast<Pack<T, kWidth>*>(static_cast<T*>(data) + element) = pack;
}

template <class... Pointers>
inline bool all_aligned(const Pointers*... pointers) {
  return (is_aligned(pointers, 16) && ...);
}

}  // namespace dpo::cuda
