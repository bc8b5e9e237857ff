// Adds three arrays in one pass over memory.
#include "ops/cuda/layers.h"
#include "ops/cuda/packs.cuh"

namespace dpo::cuda {
namespace {

// Rounds after each addition, as two operators do.
template <class T, int kWidth>
__global__ void add_three_kernel(AddThree s) {
  const std::int64_t first = thread_number() * kWidth;
  if (first >= s.count) return;
  const auto a = pack_at<T, kWidth>(s.a, first), b = pack_at<T, kWidth>(s.b, first),
             c = pack_at<T, kWidth>(s.c, first);
  Pack<T, kWidth> out;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    assign(out.values[i], to_float(a.values[i]) + to_float(b.values[i]));
    assign(out.values[i], to_float(out.values[i]) + to_float(c.values[i]));
  }
  store_pack(s.out, first, out);
}

}  // namespace

void add_three(const AddThree& s, Stream stream) {
  if (s.count == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  with_type(s.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = 16 / sizeof(T);
    if (s.count % kWidth == 0 && all_aligned(s.a, s.b, s.c, s.out))
      add_three_kernel<T, kWidth><<<blocks_for(s.count / kWidth), kThreads, 0, on>>>(s);
    else
      add_three_kernel<T, 1><<<blocks_for(s.count), kThreads, 0, on>>>(s);
  });
  check_launch("add_three");
}

}  // namespace dpo::cuda
