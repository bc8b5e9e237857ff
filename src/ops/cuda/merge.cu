#include "ops/cuda/launch.cuh"

namespace dpo::cuda {
namespace {

__device__ float log_add(float a, float b) {
  const float larger = fmaxf(a, b);
  return isinf(larger) ? larger : larger + log1pf(expf(fminf(a, b) - larger));
}

template <class T, int kWidth>
__global__ void merge_outputs(Merge m) {
  const std::int64_t thread = thread_number();
  const std::int64_t packs = m.head_dim / kWidth;
  if (thread >= m.tokens * m.heads * packs) return;
  const std::int64_t row = thread / packs;
  const std::int64_t token = row / m.heads, head = row % m.heads;
  const float one = m.lse[head * m.lse_stride + token];
  const float other = m.other_lse[head * m.other_lse_stride + token];
  const float both = log_add(one, other);
  const float share = expf(one - both), other_share = expf(other - both);
  auto& pack = static_cast<Pack<T, kWidth>*>(m.out)[thread];
  auto sum = pack;
  const auto more = static_cast<const Pack<T, kWidth>*>(m.other)[thread];
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    assign(sum.values[i], to_float(sum.values[i]) * share + to_float(more.values[i]) * other_share);
  pack = sum;
}

// Must run after the outputs are merged, because they need the old lse.
__global__ void merge_lse(Merge m) {
  const std::int64_t thread = thread_number();
  if (thread >= m.tokens * m.heads) return;
  const std::int64_t head = thread / m.tokens, token = thread % m.tokens;
  float& one = m.lse[head * m.lse_stride + token];
  one = log_add(one, m.other_lse[head * m.other_lse_stride + token]);
}

template <class T, int kWidth>
void launch(const Merge& m, cudaStream_t stream) {
  const std::int64_t threads = m.tokens * m.heads * (m.head_dim / kWidth);
  merge_outputs<T, kWidth><<<blocks_for(threads), kThreads, 0, stream>>>(m);
  merge_lse<<<blocks_for(m.tokens * m.heads), kThreads, 0, stream>>>(m);
}

}  // namespace

void merge(const Merge& m, Stream stream) {
  if (m.tokens == 0) return;
  with_type(m.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = 16 / sizeof(T);
    const bool wide = m.head_dim % kWidth == 0 && is_aligned(m.out, 16) && is_aligned(m.other, 16);
    wide ? launch<T, kWidth>(m, static_cast<cudaStream_t>(stream))
         : launch<T, 1>(m, static_cast<cudaStream_t>(stream));
  });
  check_launch("merge");
}

}  // namespace dpo::cuda
