#include "ops/cuda/launch.cuh"

namespace dpo::cuda {
namespace {

// Returns dimension d of a head after the rotation of its pair.
template <class T>
__device__ float rotated(const Rotary& r, const T* head, std::int64_t token, int d) {
  const int pairs = static_cast<int>(r.pairs);
  const int pair = r.interleaved ? d / 2 : d % pairs;
  const bool is_first = r.interleaved ? d % 2 == 0 : d < pairs;
  const int distance = r.interleaved ? 1 : pairs;
  const float own = to_float(head[d]), other = to_float(head[is_first ? d + distance : d - distance]);
  const float cos = r.cos[token * pairs + pair], sin = r.direction * r.sin[token * pairs + pair];
  return is_first ? own * cos - other * sin : own * cos + other * sin;
}

// Each thread computes kWidth adjacent dimensions of a head. Often most of them are after the pairs and only
// copied.
template <class T, int kWidth>
__global__ void rotary_kernel(Rotary r) {
  const std::int64_t thread = thread_number();
  const std::int64_t packs = r.head_dim / kWidth;
  if (thread >= r.tokens * r.heads * packs) return;
  const int d = static_cast<int>(thread % packs) * kWidth;
  const std::int64_t row = thread / packs;
  const std::int64_t token = row / r.heads;
  const T* head = static_cast<const T*>(r.in) + token * r.token_stride + (row % r.heads) * r.head_stride;
  auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(head + d);
  if (d < 2 * r.pairs) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      if (d + i < 2 * r.pairs) assign(pack.values[i], rotated(r, head, token, d + i));
  }
  *reinterpret_cast<Pack<T, kWidth>*>(static_cast<T*>(r.out) + row * r.head_dim + d) = pack;
}

template <class T, int kWidth>
void launch(const Rotary& r, cudaStream_t stream) {
  const std::int64_t threads = r.tokens * r.heads * (r.head_dim / kWidth);
  rotary_kernel<T, kWidth><<<blocks_for(threads), kThreads, 0, stream>>>(r);
}

}  // namespace

void apply_rotary(const Rotary& r, Stream stream) {
  if (r.tokens == 0) return;
  with_type(r.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = 16 / sizeof(T);
    const bool wide = r.head_dim % kWidth == 0 && r.token_stride % kWidth == 0 &&
                      r.head_stride % kWidth == 0 && is_aligned(r.in, 16) && is_aligned(r.out, 16);
    wide ? launch<T, kWidth>(r, static_cast<cudaStream_t>(stream))
         : launch<T, 1>(r, static_cast<cudaStream_t>(stream));
  });
  check_launch("rotary");
}

}  // namespace dpo::cuda
