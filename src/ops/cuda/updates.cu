// Optimizer updates in one pass over gradients, weights, state, and the weights' copy in another type. The
// arithmetic follows torch.optim operation by operation, in float32. Weights and state may be stored in fewer
// bits.
#include <type_traits>

#include "base/number_formats.h"
#include "ops/cuda/launch.cuh"
#include "ops/state_math.h"

namespace dpo::cuda {
namespace {

constexpr int kWidth = 8;

// Interpolates from the nearer end, like at::lerp, so that a share of 1 is exact.
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

// kWidth elements of an array, in registers.
struct Values {
  float at[kWidth];
};
struct RandomBits {
  std::uint64_t at[kWidth];
};

template <class T>
__device__ Values load_values(const T* data, std::int64_t start) {
  const auto pack = *pack_at<kWidth>(data + start);
  Values values;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values.at[i] = to_float(pack.values[i]);
  return values;
}

template <class T>
__device__ void store_values(T* data, std::int64_t start, const Values& values) {
  Pack<T, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) assign(pack.values[i], values.at[i]);
  *pack_at<kWidth>(data + start) = pack;
}

// An array of float32 or bfloat16. `store` replaces the values by their rounded ones.
template <class T>
struct Plain {
  static constexpr bool kRounds = !std::is_same_v<T, float>;
  static constexpr bool kHasMap = false;
  T* data;

  __device__ void use_map(float*) {}
  __device__ Values load(std::int64_t start) const { return load_values(data, start); }
  __device__ void store(std::int64_t start, Values& values, const RandomBits& bits, int lane) const {
    if constexpr (kRounds) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        values.at[i] =
            __uint_as_float(ops::rounded_bits(__float_as_uint(values.at[i]), ops::lane_of(bits.at[i], lane)));
    }
    store_values(data, start, values);
  }
};

// Float32 weights in two parts. Each thread has one byte of the carries.
struct Split {
  static constexpr bool kRounds = false;
  static constexpr bool kHasMap = false;
  __nv_bfloat16* rounded;
  std::uint16_t* low;
  std::uint8_t* carries;

  __device__ Values load(std::int64_t start) const {
    const auto upper = *pack_at<kWidth>(rounded + start);
    const auto lower = *pack_at<kWidth>(low + start);
    const std::uint32_t carry = carries[start / kWidth];
    Values values;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      values.at[i] = __uint_as_float(
          ops::joined_bits(__bfloat16_as_ushort(upper.values[i]), lower.values[i], (carry >> i) & 1U));
    return values;
  }
  __device__ void store(std::int64_t start, const Values& values, const RandomBits&, int) const {
    Pack<__nv_bfloat16, kWidth> upper;
    Pack<std::uint16_t, kWidth> lower;
    std::uint32_t carry = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const std::uint32_t bits = __float_as_uint(values.at[i]);
      assign(upper.values[i], values.at[i]);
      lower.values[i] = static_cast<std::uint16_t>(bits);
      carry |= ops::carry_of(bits, __bfloat16_as_ushort(upper.values[i])) << i;
    }
    *pack_at<kWidth>(rounded + start) = upper;
    *pack_at<kWidth>(low + start) = lower;
    carries[start / kWidth] = static_cast<std::uint8_t>(carry);
  }
};
static_assert(kWidth == 8);

// An array of codes. Each warp has one group of them: 32 lanes of kWidth.
struct Codes {
  static constexpr bool kRounds = false;
  static constexpr bool kHasMap = true;
  std::uint8_t* codes;
  float* absmax;
  const float* map;

  // All threads of a block must call it, and then wait for each other.
  __device__ void use_map(float* shared) {
    shared[threadIdx.x] = map[threadIdx.x];
    map = shared;
  }
  __device__ Values load(std::int64_t start) const {
    const auto pack = *pack_at<kWidth>(codes + start);
    const float scale = absmax[start / kStateGroup];
    Values values;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.at[i] = map[pack.values[i]] * scale;
    return values;
  }
  __device__ void store(std::int64_t start, Values& values, const RandomBits&, int) const {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) largest = fmaxf(largest, fabsf(values.at[i]));
    for (int distance = 16; distance > 0; distance /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, distance));
    Pack<std::uint8_t, kWidth> pack;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      pack.values[i] = ops::code_of(largest > 0 ? __fdiv_rn(values.at[i], largest) : 0, map);
    *pack_at<kWidth>(codes + start) = pack;
    if (start % kStateGroup == 0) absmax[start / kStateGroup] = largest;
  }
};
static_assert(kThreads == 256 && kWidth * 32 == kStateGroup);

// Updates kWidth elements per thread. `State` are the arrays of the optimizer state.
template <class Rule, class Weights, class Gradient, class... State>
__global__ void update_kernel(Rule rule, Update u, Weights weights, const Gradient* gradients,
                              State... state) {
  if constexpr ((State::kHasMap || ...)) {
    __shared__ float maps[sizeof...(State)][256];
    int next = 0;
    (state.use_map(maps[next++]), ...);
    __syncthreads();
  }
  const std::int64_t start = thread_number() * kWidth;
  if (start >= u.count) return;
  const Values gradient = load_values(gradients, start);
  Values weight = weights.load(start);
  RandomBits bits{};
  if constexpr (Weights::kRounds || (State::kRounds || ...)) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) bits.at[i] = ops::random_bits(u.key, u.first + start + i);
  }
  const auto update = [&](auto... own) {  // `own` is the state in registers
#pragma unroll
    for (int i = 0; i < kWidth; ++i) rule(weight.at[i], u.gradient_scale * gradient.at[i], own.at[i]...);
    int lane = 0;
    (state.store(start, own, bits, ++lane), ...);
  };
  update(state.load(start)...);
  weights.store(start, weight, bits, 0);
  if (!u.copy) return;
  switch (u.copy_type) {
    case Type::float32: return store_values(static_cast<float*>(u.copy), start, weight);
    case Type::bfloat16: return store_values(static_cast<__nv_bfloat16*>(u.copy), start, weight);
    case Type::float16: return store_values(static_cast<__half*>(u.copy), start, weight);
  }
}

template <class Rule, class Weights, class... Stored>
void launch(const Rule& rule, const Update& u, Stream stream, Weights weights, Stored... state) {
  if (u.count == 0) return;
  with_type(u.gradient_type, [&](auto gradient) {
    update_kernel<<<blocks_for(u.count / kWidth), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        rule, u, weights, static_cast<const decltype(gradient)*>(u.gradient), state...);
  });
  check_launch("optimizer");
}

template <class Rule, class... Arrays>
void launch_with_weights(const Rule& rule, const Update& u, Stream stream, Arrays... state) {
  if (u.low)
    launch(rule, u, stream, Split{static_cast<__nv_bfloat16*>(u.weights), u.low, u.carries}, state...);
  else if (u.weight_type == Type::float32)
    launch(rule, u, stream, Plain<float>{static_cast<float*>(u.weights)}, state...);
  else
    launch(rule, u, stream, Plain<__nv_bfloat16>{static_cast<__nv_bfloat16*>(u.weights)}, state...);
}

template <class Rule, class... Arrays>
void launch_with_state(const Rule& rule, const Update& u, Stream stream, StateType type,
                       const Arrays&... state) {
  switch (type) {
    case StateType::float32:
      return launch_with_weights(rule, u, stream, Plain<float>{static_cast<float*>(state.values)}...);
    case StateType::bfloat16:
      return launch_with_weights(rule, u, stream,
                                 Plain<__nv_bfloat16>{static_cast<__nv_bfloat16*>(state.values)}...);
    case StateType::codes:
      return launch_with_weights(rule, u, stream,
                                 Codes{static_cast<std::uint8_t*>(state.values), state.absmax, state.map}...);
  }
}

}  // namespace

void adam(const Update& update, const State& exp_avg, const State& exp_avg_sq, const Adam& coefficients,
          Stream stream) {
  launch_with_state(AdamRule{coefficients}, update, stream, exp_avg.type, exp_avg, exp_avg_sq);
}

void rmsprop(const Update& update, const State& square_avg, const RmsProp& coefficients, Stream stream) {
  launch_with_state(RmsPropRule{coefficients}, update, stream, square_avg.type, square_avg);
}

}  // namespace dpo::cuda
