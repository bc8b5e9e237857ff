// Rotary embedding within the product of a layer's fused matrix.
#include <algorithm>
#include <numeric>

#include "ops/cuda/layers.h"
#include "ops/cuda/packs.cuh"

namespace dpo::cuda {
namespace {

constexpr int kTokenThreads = 128, kRotationThreads = 256;

// The compiler may choose which product of a * cos - b * sin is rounded; here that is always the one with
// sin, so that bits do not depend on the width of packs.
template <class T>
__device__ void rotate_pair(T& first, T& second, float cos, float sin) {
  const float a = to_float(first), b = to_float(second);
  assign(first, fmaf(a, cos, -__fmul_rn(b, sin)));
  assign(second, fmaf(b, cos, __fmul_rn(a, sin)));
}

// A thread rotates kWidth pairs of a head at a time: packs of their first and of their second dimensions, or
// one pack of both if pairs are adjacent.
template <class T, int kWidth, bool kInterleaved>
__device__ void rotate_pairs(const HeadRotation& r, const HeadPart& part, std::int64_t token, int head,
                             int pair) {
  const T* from = static_cast<const T*>(part.from) + token * part.from_token + head * part.from_head;
  T* to = static_cast<T*>(part.to) + token * part.to_token + head * part.to_head;
  const auto cos = pack_at<float, kWidth>(r.cos, token * r.pairs + pair);
  const auto sin = pack_at<float, kWidth>(r.sin, token * r.pairs + pair);
  constexpr int kStep = kInterleaved ? 2 : 1;
  Pack<T, kWidth> packs[2];
  Pack<T, 2 * kWidth> both;
  if (kInterleaved) {
    both = pack_at<T, 2 * kWidth>(from, 2 * pair);
  } else {
    packs[0] = pack_at<T, kWidth>(from, pair);
    packs[1] = pack_at<T, kWidth>(from, r.pairs + pair);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    T& first = kInterleaved ? both.values[kStep * i] : packs[0].values[i];
    T& second = kInterleaved ? both.values[kStep * i + 1] : packs[1].values[i];
    rotate_pair(first, second, cos.values[i], r.direction * sin.values[i]);
  }
  if (kInterleaved) {
    store_pack(to, 2 * pair, both);
  } else {
    store_pack(to, pair, packs[0]);
    store_pack(to, r.pairs + pair, packs[1]);
  }
}

// The same of all pairs of a head whose number is no multiple of a pack's. What shares the last pack with
// them is written as it was read.
template <class T, int kPairs>
__device__ void rotate_head(const HeadRotation& r, const HeadPart& part, std::int64_t token, int head) {
  constexpr int kWidth = 16 / sizeof(T), kPacks = (2 * kPairs + kWidth - 1) / kWidth;
  const T* from = static_cast<const T*>(part.from) + token * part.from_token + head * part.from_head;
  T* to = static_cast<T*>(part.to) + token * part.to_token + head * part.to_head;
  Pack<T, kWidth> packs[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) packs[p] = pack_at<T, kWidth>(from, p * kWidth);
#pragma unroll
  for (int i = 0; i < kPairs; i += 2) {
    const auto cos = pack_at<float, 2>(r.cos, token * kPairs + i);
    const auto sin = pack_at<float, 2>(r.sin, token * kPairs + i);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int first = i + k, second = kPairs + i + k;
      rotate_pair(packs[first / kWidth].values[first % kWidth],
                  packs[second / kWidth].values[second % kWidth], cos.values[k], r.direction * sin.values[k]);
    }
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) store_pack(to, p * kWidth, packs[p]);
}

// Calls action(part, token, head, i) for i below `units` of each head of queries and keys. Threads with the
// same y of a block share a token: few heads would not keep a block busy.
template <class Action>
__device__ void for_heads(const HeadRotation& r, int units, const Action& action) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (token >= r.tokens) return;
#pragma unroll
  for (int p = 0, before = 0; p < kRotatedParts; before += r.parts[p++].heads * units) {
    // The thread after the last of the queries takes the first of the keys.
    const int threads = static_cast<int>(blockDim.x),
              first = static_cast<int>(threadIdx.x) - before % threads;
    for (int i = first < 0 ? first + threads : first; i < r.parts[p].heads * units; i += threads)
      action(r.parts[p], token, i / units, i % units);
  }
}

template <class T, int kWidth, bool kInterleaved>
__global__ void rotate_kernel(HeadRotation r) {
  for_heads(r, static_cast<int>(r.pairs) / kWidth,
            [&r](const HeadPart& part, std::int64_t token, int head, int i) {
              rotate_pairs<T, kWidth, kInterleaved>(r, part, token, head, i * kWidth);
            });
}

template <class T, int kPairs>
__global__ void rotate_heads_kernel(HeadRotation r) {
  for_heads(r, 1, [&r](const HeadPart& part, std::int64_t token, int head, int) {
    rotate_head<T, kPairs>(r, part, token, head);
  });
}

// What is not rotated: the last dimensions of queries and keys, and values.
template <class T, int kWidth>
__global__ void copy_kernel(HeadRotation r) {
  const std::int64_t token = blockIdx.x;
#pragma unroll
  for (int p = 0; p < kHeadParts; ++p) {
    const HeadPart& part = r.parts[p];
    const int begin = p < kRotatedParts ? static_cast<int>(2 * r.pairs) : 0;
    const int packs = (static_cast<int>(r.head_dim) - begin) / kWidth;
    for (int i = threadIdx.x; i < part.heads * packs; i += kTokenThreads) {
      const int head = i / packs, d = begin + i % packs * kWidth;
      store_pack(part.to, token * part.to_token + head * part.to_head + d,
                 pack_at<T, kWidth>(part.from, token * part.from_token + head * part.from_head + d));
    }
  }
}

// The largest power of 2 that divides all of the strides and addresses of the parts, and `size`; in elements,
// at most `most`.
template <class T>
int width_for(const HeadRotation& r, int parts, std::int64_t size, int most) {
  std::int64_t divisor = std::gcd<std::int64_t>(most, size);
  for (int p = 0; p < parts; ++p) {
    const HeadPart& part = r.parts[p];
    for (const std::int64_t stride : {part.from_token, part.from_head, part.to_token, part.to_head})
      divisor = std::gcd(divisor, stride);
    for (const void* data : {part.from, static_cast<const void*>(part.to)})
      while (!is_aligned(data, sizeof(T) * static_cast<std::size_t>(divisor))) divisor /= 2;
  }
  return static_cast<int>(divisor);
}

template <int kValue>
using PackWidth = std::integral_constant<int, kValue>;

// Calls action(width as a type).
template <class Action>
void with_width(int width, const Action& action) {
  switch (width) {
    case 8: return action(PackWidth<8>());
    case 4: return action(PackWidth<4>());
    case 2: return action(PackWidth<2>());
    default: return action(PackWidth<1>());
  }
}

// So many threads for the units of a token that none is idle in any of their turns, and as many tokens as
// fit.
dim3 rotation_threads(std::int64_t units_of_token) {
  const std::int64_t turns = (units_of_token + kRotationThreads - 1) / kRotationThreads;
  const std::int64_t threads = (units_of_token + turns - 1) / turns;
  return {static_cast<unsigned>(threads), static_cast<unsigned>(kRotationThreads / threads)};
}

// Launches a kernel whose threads take `units` of each head.
void launch_for_heads(void (*kernel)(HeadRotation), const HeadRotation& r, std::int64_t units,
                      cudaStream_t stream) {
  const dim3 threads = rotation_threads((r.parts[0].heads + r.parts[1].heads) * units);
  const auto blocks = static_cast<unsigned>((r.tokens + threads.y - 1) / threads.y);
  kernel<<<blocks, threads, 0, stream>>>(r);
}

// Whole heads, for sizes of well-known models in 16 bits: Pythia-2.8B and GPT-NeoX-20B. Returns whether it is
// one of them.
template <class T>
bool launch_whole_heads(const HeadRotation& r, cudaStream_t stream) {
  constexpr std::int64_t kWidth = 16 / sizeof(T);
  const std::int64_t read = (2 * r.pairs + kWidth - 1) / kWidth * kWidth;
  if (sizeof(T) != 2 || r.interleaved || read > r.head_dim ||
      width_for<T>(r, kRotatedParts, kWidth, kWidth) != kWidth)
    return false;
  switch (r.pairs) {
    case 10: launch_for_heads(rotate_heads_kernel<T, 10>, r, 1, stream); return true;
    case 12: launch_for_heads(rotate_heads_kernel<T, 12>, r, 1, stream); return true;
    default: return false;
  }
}

template <class T>
void launch_rotation(const HeadRotation& r, cudaStream_t stream) {
  constexpr int kMost = 16 / sizeof(T);
  if (launch_whole_heads<T>(r, stream)) return;
  if (r.interleaved)
    // A pack of pairs has twice as many elements.
    with_width(width_for<T>(r, kRotatedParts, 2 * r.pairs, kMost) / 2, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch_for_heads(rotate_kernel<T, kWidth, true>, r, r.pairs / kWidth, stream);
    });
  else
    with_width(width_for<T>(r, kRotatedParts, r.pairs, kMost), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch_for_heads(rotate_kernel<T, kWidth, false>, r, r.pairs / kWidth, stream);
    });
}

template <class T>
void launch_copy(const HeadRotation& r, cudaStream_t stream) {
  const std::int64_t size = std::gcd(2 * r.pairs, r.head_dim);
  with_width(width_for<T>(r, kHeadParts, size, 16 / sizeof(T)), [&](auto width) {
    copy_kernel<T, decltype(width)::value><<<static_cast<unsigned>(r.tokens), kTokenThreads, 0, stream>>>(r);
  });
}

}  // namespace

void rotate_heads(const HeadRotation& r, Stream stream) {
  if (r.tokens == 0) return;
  const bool copies = r.parts[0].from != r.parts[0].to;
  with_type(r.type, [&](auto zero) {
    using T = decltype(zero);
    if (r.pairs > 0) launch_rotation<T>(r, static_cast<cudaStream_t>(stream));
    if (copies) launch_copy<T>(r, static_cast<cudaStream_t>(stream));
  });
  check_launch("rotate_heads");
}

}  // namespace dpo::cuda
