// Rotary embedding in place in a layer's fused projection. A block takes a token.
#include <algorithm>
#include <numeric>

#include "ops/cuda/layers.h"
#include "ops/cuda/packs.cuh"

namespace dpo::cuda {
namespace {

constexpr int kTokenThreads = 128;

// Each thread rotates kWidth pairs of a head at a time: one pack of first and one of second dimensions, or a
// single pack of both if pairs are adjacent.
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
    const float a = to_float(first), b = to_float(second);
    const float s = r.direction * sin.values[i];
    assign(first, a * cos.values[i] - b * s);
    assign(second, b * cos.values[i] + a * s);
  }
  if (kInterleaved) {
    store_pack(to, 2 * pair, both);
  } else {
    store_pack(to, pair, packs[0]);
    store_pack(to, r.pairs + pair, packs[1]);
  }
}

template <class T, int kWidth, bool kInterleaved>
__global__ void rotate_kernel(HeadRotation r) {
  const int packs = static_cast<int>(r.pairs) / kWidth;
#pragma unroll
  for (int p = 0; p < kRotatedParts; ++p)
    for (int i = threadIdx.x; i < r.parts[p].heads * packs; i += kTokenThreads)
      rotate_pairs<T, kWidth, kInterleaved>(r, r.parts[p], blockIdx.x, i / packs, i % packs * kWidth);
}

// Copies what is not rotated: the last dimensions of queries and keys, and the values.
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

// Returns the largest power of 2, in elements and at most `most`, that divides `size` and all strides and
// addresses of the parts.
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

template <class T>
void launch_rotation(const HeadRotation& r, cudaStream_t stream) {
  const auto tokens = static_cast<unsigned>(r.tokens);
  constexpr int kMost = 16 / sizeof(T);
  if (r.interleaved)
    // A pack of pairs has twice as many elements.
    with_width(width_for<T>(r, kRotatedParts, 2 * r.pairs, kMost) / 2, [&](auto width) {
      rotate_kernel<T, decltype(width)::value, true><<<tokens, kTokenThreads, 0, stream>>>(r);
    });
  else
    with_width(width_for<T>(r, kRotatedParts, r.pairs, kMost), [&](auto width) {
      rotate_kernel<T, decltype(width)::value, false><<<tokens, kTokenThreads, 0, stream>>>(r);
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
