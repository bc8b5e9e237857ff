// Hashes an array, to check whether two computations gave the same bits.
#include <algorithm>

#include "ops/cuda/launch.cuh"
#include "ops/cuda/matmuls.h"

namespace dpo::cuda {
namespace {

// The finalizer of SplitMix64: every bit of the result depends on all bits of x.
__device__ unsigned long long mixed(unsigned long long x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Sums of integers do not depend on the order, so atomics are safe here.
__global__ void digest_kernel(const unsigned long long* words, std::int64_t count, unsigned long long* hash,
                              unsigned long long* nonzero) {
  unsigned long long sum = 0, others = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = thread_number(); i < count; i += step) {
    sum += mixed(words[i] ^ mixed(static_cast<unsigned long long>(i) + 1));
    others += words[i] != 0;
  }
  atomicAdd(hash, sum);
  atomicAdd(nonzero, others);
}

}  // namespace

void digest(const void* data, std::int64_t words, Digest* digest, Stream stream) {
  constexpr unsigned kMostBlocks = 1024;
  const auto on = static_cast<cudaStream_t>(stream);
  cudaMemsetAsync(digest, 0, sizeof *digest, on);
  digest_kernel<<<std::clamp(blocks_for(words), 1u, kMostBlocks), kThreads, 0, on>>>(
      static_cast<const unsigned long long*>(data), words,
      reinterpret_cast<unsigned long long*>(&digest->hash),
      reinterpret_cast<unsigned long long*>(&digest->nonzero_words));
  check_launch("digest");
}

}  // namespace dpo::cuda
