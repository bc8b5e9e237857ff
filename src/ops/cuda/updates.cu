// Optimizer updates. The arithmetic is torch.optim's, operation by operation.
#include "ops/cuda/launch.cuh"

namespace dpo::cuda {
namespace {

constexpr int kWidth = 4;

// As at::lerp: from the nearer end, so that a share of 1 is exact.
__device__ float lerp(float from, float to, float share) {
  return share < 0.5F ? from + share * (to - from) : to - (to - from) * (1 - share);
}

struct AdamUpdate {
  Adam c;

  __device__ void operator()(float& weight, float gradient, float& exp_avg, float& exp_avg_sq) const {
    gradient += c.l2 * weight;
    weight *= c.decay;
    exp_avg = lerp(exp_avg, gradient, c.one_minus_beta1);
    exp_avg_sq = exp_avg_sq * c.beta2 + c.one_minus_beta2 * gradient * gradient;
    weight += c.step_size * exp_avg / (sqrtf(exp_avg_sq) / c.sqrt_bias_correction2 + c.epsilon);
  }
};

struct RmsPropUpdate {
  RmsProp c;

  __device__ void operator()(float& weight, float gradient, float& square_avg) const {
    gradient += c.l2 * weight;
    square_avg = square_avg * c.alpha + c.one_minus_alpha * gradient * gradient;
    weight += c.step_size * gradient / (sqrtf(square_avg) + c.epsilon);
  }
};

// Four elements per thread; `State` are the arrays of the optimizer state.
template <class Update, class T, class... State>
__global__ void update_kernel(Update update, float* weights, const T* gradients, std::int64_t count,
                              State*... state) {
  const std::int64_t start = thread_number() * kWidth;
  if (start + kWidth > count) {
    for (std::int64_t i = start; i < count; ++i) update(weights[i], to_float(gradients[i]), state[i]...);
    return;
  }
  using Floats = Pack<float, kWidth>;
  const auto step = [&](Floats& w, const Pack<T, kWidth>& g, auto&... k) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) update(w.values[i], to_float(g.values[i]), k.values[i]...);
  };
  const auto pack_at = [start](auto* data) { return reinterpret_cast<Floats*>(data + start); };
  const auto gradient = *reinterpret_cast<const Pack<T, kWidth>*>(gradients + start);
  Floats weight = *pack_at(weights);
  const auto with = [&](auto... k) {  // copies in registers
    step(weight, gradient, k...);
    ((*pack_at(state) = k), ...);
  };
  with(*pack_at(state)...);
  *pack_at(weights) = weight;
}

template <class Update, class... State>
void launch(const Update& update, float* weights, Gradient gradient, std::int64_t count, Stream stream,
            State*... state) {
  if (count == 0) return;
  with_type(gradient.type, [&](auto zero) {
    using T = decltype(zero);
    update_kernel<<<blocks_for((count + kWidth - 1) / kWidth), kThreads, 0,
                    static_cast<cudaStream_t>(stream)>>>(
        update, weights, static_cast<const T*>(gradient.data), count, state...);
  });
  check_launch("optimizer");
}

}  // namespace

void adam(float* weights, Gradient gradient, float* exp_avg, float* exp_avg_sq, std::int64_t count,
          const Adam& coefficients, Stream stream) {
  launch(AdamUpdate{coefficients}, weights, gradient, count, stream, exp_avg, exp_avg_sq);
}

void rmsprop(float* weights, Gradient gradient, float* square_avg, std::int64_t count,
             const RmsProp& coefficients, Stream stream) {
  launch(RmsPropUpdate{coefficients}, weights, gradient, count, stream, square_avg);
}

}  // namespace dpo::cuda
