// Optimizer updates: one pass over gradients, weights and state, and over the weights' copy in another type.
// The arithmetic is torch.optim's, operation by operation.
#include "ops/cuda/launch.cuh"

namespace dpo::cuda {
namespace {

constexpr int kWidth = 8;

// As at::lerp: from the nearer end, so that a share of 1 is exact.
__device__ float lerp(float from, float to, float share) {
  return share < 0.5F ? from + share * (to - from) : to - (to - from) * (1 - share);
}

struct AdamRule {
  Adam c;

  __device__ void operator()(float& weight, float gradient, float& exp_avg, float& exp_avg_sq) const {
    gradient += c.l2 * weight;
    weight *= c.decay;
    exp_avg = lerp(exp_avg, gradient, c.one_minus_beta1);
    exp_avg_sq = exp_avg_sq * c.beta2 + c.one_minus_beta2 * gradient * gradient;
    weight += c.step_size * exp_avg / (sqrtf(exp_avg_sq) / c.sqrt_bias_correction2 + c.epsilon);
  }
};

struct RmsPropRule {
  RmsProp c;

  __device__ void operator()(float& weight, float gradient, float& square_avg) const {
    gradient += c.l2 * weight;
    square_avg = square_avg * c.alpha + c.one_minus_alpha * gradient * gradient;
    weight += c.step_size * gradient / (sqrtf(square_avg) + c.epsilon);
  }
};

// kWidth elements per thread; `State` are the arrays of the optimizer state.
template <class Rule, class Gradient, class Copy, class... State>
__global__ void update_kernel(Rule rule, Update u, const Gradient* gradients, Copy* copy, State*... state) {
  const std::int64_t start = thread_number() * kWidth;
  if (start + kWidth > u.count) {
    for (std::int64_t i = start; i < u.count; ++i) {
      rule(u.weights[i], u.gradient_scale * to_float(gradients[i]), state[i]...);
      if (copy) assign(copy[i], u.weights[i]);
    }
    return;
  }
  const auto at_start = [start](auto* data) { return pack_at<kWidth>(data + start); };
  const auto gradient = *at_start(gradients);
  auto weight = *at_start(u.weights);
  const auto update = [&](auto... own) {  // copies of the state in registers
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      rule(weight.values[i], u.gradient_scale * to_float(gradient.values[i]), own.values[i]...);
    ((*at_start(state) = own), ...);
  };
  update(*at_start(state)...);
  *at_start(u.weights) = weight;
  if (!copy) return;
  Pack<Copy, kWidth> copied;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) assign(copied.values[i], weight.values[i]);
  *at_start(copy) = copied;
}

template <class Rule, class... State>
void launch(const Rule& rule, const Update& u, Stream stream, State*... state) {
  if (u.count == 0) return;
  with_type(u.gradient_type, [&](auto gradient) {
    with_type(u.copy_type, [&](auto copy) {
      update_kernel<<<blocks_for((u.count + kWidth - 1) / kWidth), kThreads, 0,
                      static_cast<cudaStream_t>(stream)>>>(rule, u,
                                                           static_cast<const decltype(gradient)*>(u.gradient),
                                                           static_cast<decltype(copy)*>(u.copy), state...);
    });
  });
  check_launch("optimizer");
}

}  // namespace

void adam(const Update& update, float* exp_avg, float* exp_avg_sq, const Adam& coefficients, Stream stream) {
  launch(AdamRule{coefficients}, update, stream, exp_avg, exp_avg_sq);
}

void rmsprop(const Update& update, float* square_avg, const RmsProp& coefficients, Stream stream) {
  launch(RmsPropRule{coefficients}, update, stream, square_avg);
}

}  // namespace dpo::cuda
