// Activations of an MLP with their neighbours: the multiplication by `up` of a gated one, the bias before
// others.
#include <algorithm>

#include "ops/cuda/layers.h"
#include "ops/cuda/packs.cuh"
#include "ops/cuda/sums.cuh"
#include "ops/gelu.h"

namespace dpo::cuda {
namespace {

// Formulas follow LibTorch's.
struct Gelu {
  static __device__ float cdf(float x) { return 0.5F * (1 + erff(x * 0.70710678118654752F)); }
  static __device__ float value(float x) { return x * cdf(x); }
  static __device__ float derivative(float x) {
    return cdf(x) + x * 0.39894228040143268F * expf(-0.5F * x * x);
  }
};

// Fast version; the error is much less than the rounding to 16 bits.
struct FastGelu {
  static __device__ float value(float x) { return ops::fast_gelu(x); }
  static __device__ float derivative(float x) { return ops::fast_gelu_derivative(x); }
};

struct GeluTanh {
  static constexpr float kScale = 0.79788456080286536F, kCubic = 0.044715F;
  static __device__ float inner(float x) { return tanhf(kScale * (x + kCubic * x * x * x)); }
  static __device__ float value(float x) { return 0.5F * x * (1 + inner(x)); }
  static __device__ float derivative(float x) {
    const float t = inner(x);
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x);
  }
};

struct Relu {
  static __device__ float value(float x) { return x > 0 || isnan(x) ? x : 0; }
  static __device__ float derivative(float x) { return x > 0 ? 1 : 0; }
};

struct Silu {
  static __device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }
  static __device__ float value(float x) { return x * sigmoid(x); }
  static __device__ float derivative(float x) {
    const float s = sigmoid(x);
    return s * (1 + x * (1 - s));
  }
};

// Calls action(the activation's functions for elements of type T).
template <class T, class Action>
void with_activation(Activation activation, const Action& action) {
  switch (activation) {
    case Activation::gelu: return action(std::conditional_t<sizeof(T) == 2, FastGelu, Gelu>());
    case Activation::gelu_tanh: return action(GeluTanh());
    case Activation::relu: return action(Relu());
    case Activation::silu: return action(Silu());
  }
}

// Each block takes a row.
template <class T, int kWidth, class Function>
__global__ void gated_kernel(Gated g) {
  const std::int64_t row = blockIdx.x;
  for (std::int64_t c = threadIdx.x * kWidth; c < g.width; c += kThreads * kWidth) {
    const auto gate = pack_at<T, kWidth>(g.gate, row * g.stride + c);
    const auto up = pack_at<T, kWidth>(g.up, row * g.stride + c);
    Pack<T, kWidth> out;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      assign(out.values[i], Function::value(to_float(gate.values[i])) * to_float(up.values[i]));
    store_pack(g.out, row * g.width + c, out);
  }
}

template <class T, int kWidth, class Function>
__global__ void gated_backward_kernel(Gated g) {
  const std::int64_t row = blockIdx.x;
  for (std::int64_t c = threadIdx.x * kWidth; c < g.width; c += kThreads * kWidth) {
    const auto gate = pack_at<T, kWidth>(g.gate, row * g.stride + c);
    const auto up = pack_at<T, kWidth>(g.up, row * g.stride + c);
    const auto grad = pack_at<T, kWidth>(g.grad_out, row * g.width + c);
    Pack<T, kWidth> grad_gate, grad_up;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float x = to_float(gate.values[i]), d = to_float(grad.values[i]);
      assign(grad_gate.values[i], d * to_float(up.values[i]) * Function::derivative(x));
      assign(grad_up.values[i], d * Function::value(x));
    }
    store_pack(g.grad_gate, row * g.stride + c, grad_gate);
    store_pack(g.grad_up, row * g.stride + c, grad_up);
  }
}

// A thread takes the same columns of several rows. It loads them all before it computes, to keep enough loads
// in flight. kBlocksOfSm tells the compiler how many registers it may use.
constexpr int kActivatedRows = 2, kBlocksOfSm = 4;

template <class T, int kWidth>
__device__ void load_bias(const void* bias, std::int64_t column, float (&values)[kWidth]) {
  const auto pack = bias ? pack_at<T, kWidth>(bias, column) : Pack<T, kWidth>{};
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = to_float(pack.values[i]);
}

template <int kRows, class Function, class T, int kWidth>
__device__ void activate_rows(const BiasActivation& a, std::int64_t row, std::int64_t column,
                              const float (&bias)[kWidth]) {
  Pack<T, kWidth> x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r] = pack_at<T, kWidth>(a.x, (row + r * a.parts) * a.width + column);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    Pack<T, kWidth> out;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      assign(out.values[i], Function::value(to_float(x[r].values[i]) + bias[i]));
    store_pack(a.out, (row + r * a.parts) * a.width + column, out);
  }
}

// Each block takes the columns of its threads and every `parts`th row.
template <class T, int kWidth, class Function>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm) bias_activation_kernel(BiasActivation a) {
  const std::int64_t c = thread_number() * kWidth;
  if (c >= a.width) return;
  float bias[kWidth];
  load_bias<T>(a.bias, c, bias);
  std::int64_t row = blockIdx.y;
  for (; row + (kActivatedRows - 1) * a.parts < a.rows; row += kActivatedRows * a.parts)
    activate_rows<kActivatedRows, Function, T>(a, row, c, bias);
  for (; row < a.rows; row += a.parts) activate_rows<1, Function, T>(a, row, c, bias);
}

// Computes the gradients of rows that are `parts` apart, and adds them to the sums.
template <int kRows, class Function, class T, int kWidth>
__device__ void activate_rows_backward(const BiasActivation& a, std::int64_t row, std::int64_t column,
                                       const float (&bias)[kWidth], float (&sums)[kWidth]) {
  Pack<T, kWidth> x[kRows], grad[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    x[r] = pack_at<T, kWidth>(a.x, (row + r * a.parts) * a.width + column);
    grad[r] = pack_at<T, kWidth>(a.grad_out, (row + r * a.parts) * a.width + column);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float in = to_float(x[r].values[i]) + bias[i];
      const float d = to_float(grad[r].values[i]) * Function::derivative(in);
      sums[i] += d;
      assign(x[r].values[i], d);
    }
    store_pack(a.grad_x, (row + r * a.parts) * a.width + column, x[r]);
  }
}

// Each block takes the columns of its threads and every `parts`th row.
template <class T, int kWidth, class Function>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm) bias_activation_backward_kernel(BiasActivation a) {
  constexpr int kRows = kActivatedRows;
  const std::int64_t c = thread_number() * kWidth;
  if (c >= a.width) return;
  float bias[kWidth], sums[kWidth] = {};
  load_bias<T>(a.bias, c, bias);
  std::int64_t row = blockIdx.y;
  for (; row + (kRows - 1) * a.parts < a.rows; row += kRows * a.parts)
    activate_rows_backward<kRows, Function, T>(a, row, c, bias, sums);
  for (; row < a.rows; row += a.parts) activate_rows_backward<1, Function, T>(a, row, c, bias, sums);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) a.partial[blockIdx.y * a.width + c + i] = sums[i];
}

template <int kValue>
using Width = std::integral_constant<int, kValue>;

// Calls action(T, width, activation). An access is 16 bytes wide if sizes and pointers allow it.
template <class Call, class Action>
void with_kernel(const Call& call, bool is_wide, const Action& action) {
  with_type(call.type, [&](auto zero) {
    with_activation<decltype(zero)>(call.activation, [&](auto function) {
      constexpr int kWidth = 16 / sizeof(zero);
      is_wide&& call.width % kWidth == 0 ? action(zero, Width<kWidth>(), function)
                                         : action(zero, Width<1>(), function);
    });
  });
}

bool is_wide(const Gated& g) {
  return (g.stride * (g.type == Type::float32 ? 4 : 2)) % 16 == 0 &&
         all_aligned(g.gate, g.up, g.out, g.grad_out, g.grad_gate, g.grad_up);
}

bool is_wide(const BiasActivation& a) { return all_aligned(a.x, a.bias, a.out, a.grad_out, a.grad_x); }

}  // namespace

void gated(const Gated& g, Stream stream) {
  if (g.rows == 0) return;
  with_kernel(g, is_wide(g), [&](auto zero, auto width, auto function) {
    gated_kernel<decltype(zero), decltype(width)::value, decltype(function)>
        <<<static_cast<unsigned>(g.rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(g);
  });
  check_launch("gated");
}

void gated_backward(const Gated& g, Stream stream) {
  if (g.rows == 0) return;
  with_kernel(g, is_wide(g), [&](auto zero, auto width, auto function) {
    gated_backward_kernel<decltype(zero), decltype(width)::value, decltype(function)>
        <<<static_cast<unsigned>(g.rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(g);
  });
  check_launch("gated_backward");
}

// Chooses about as many blocks as a large GPU runs at once, so that few partial sums have to be added.
std::int64_t bias_parts(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kBlocks = 528, kMostParts = 1024;
  const std::int64_t blocks_of_row = blocks_for((width + 7) / 8);
  return std::max<std::int64_t>(1, std::min({rows, kBlocks / blocks_of_row, kMostParts}));
}

void bias_activation(const BiasActivation& a, Stream stream) {
  if (a.rows == 0) return;
  with_kernel(a, is_wide(a), [&](auto zero, auto width, auto function) {
    constexpr int kWidth = decltype(width)::value;
    const dim3 grid(blocks_for((a.width + kWidth - 1) / kWidth), static_cast<unsigned>(a.parts));
    bias_activation_kernel<decltype(zero), kWidth, decltype(function)>
        <<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  });
  check_launch("bias_activation");
}

void bias_activation_backward(const BiasActivation& a, Stream stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  with_kernel(a, is_wide(a), [&](auto zero, auto width, auto function) {
    using T = decltype(zero);
    constexpr int kWidth = decltype(width)::value;
    const dim3 grid(blocks_for((a.width + kWidth - 1) / kWidth), static_cast<unsigned>(a.parts));
    bias_activation_backward_kernel<T, kWidth, decltype(function)><<<grid, kThreads, 0, on>>>(a);
    if (a.grad_bias) launch_add_parts(a.partial, a.parts, a.width, static_cast<T*>(a.grad_bias), on);
  });
  check_launch("bias_activation_backward");
}

}  // namespace dpo::cuda
