#pragma once

#include <cstdint>
#include <string_view>

// CUDA kernels call these functions too.
#ifdef __CUDACC__
#define DPO_HOST_DEVICE __host__ __device__
#else
#define DPO_HOST_DEVICE
#endif

namespace dpo {

// Hashes 64 bits (SplitMix64). Applied to a counter, it is a random stream with random access.
DPO_HOST_DEVICE inline std::uint64_t splitmix64(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Derives a key for each name, so that each name has an independent stream.
inline std::uint64_t key_of(std::uint64_t key, std::string_view name) {
  for (const char letter : name) key = splitmix64(key ^ static_cast<unsigned char>(letter));
  return key;
}

}  // namespace dpo
