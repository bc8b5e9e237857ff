// Kernels of our own, each a single pass over memory. Neither LibTorch's headers nor CUDA's are needed here;
// the arrays are on the current device, and a launch that fails throws std::runtime_error.
#pragma once

#include <cstdint>

namespace dpo::cuda {

using Stream = void*;  // a cudaStream_t

enum class Type { float32, bfloat16, float16 };

// Turns pairs of numbers in every head of every token by that token's angles. Strides are in elements; the
// result is contiguous.
struct Rotation {
  const void* in = nullptr;
  void* out = nullptr;
  Type type = Type::float32;
  std::int64_t tokens = 0, heads = 0, head_dim = 0, token_stride = 0, head_stride = 0;
  const float* cos = nullptr;  // [tokens, pairs]
  const float* sin = nullptr;
  std::int64_t pairs = 0;
  bool interleaved = false;
  float direction = 1;  // -1 turns back
};
void rotate(const Rotation& rotation, Stream stream);

// Makes one attention over two sets of keys of two over one each. Outputs are [tokens, heads, head_dim],
// contiguous; the logarithms are [heads, tokens] with a stride between heads.
struct Merge {
  void* out = nullptr;  // of the first, and the result
  const void* other = nullptr;
  Type type = Type::float32;
  float* lse = nullptr;
  const float* other_lse = nullptr;
  std::int64_t lse_stride = 0, other_lse_stride = 0;
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
};
void merge(const Merge& merge, Stream stream);

// Updates of `count` weights in float32, with gradients of either type.
struct Gradient {
  const void* data = nullptr;
  Type type = Type::float32;
};

struct Adam {
  float l2 = 0;     // share of the weight that is added to its gradient
  float decay = 1;  // of the weight itself, before the update
  float first_share = 0, second_keep = 0, second_share = 0;
  float root_correction = 1, epsilon = 0, step = 0;
};
void adam(float* weights, Gradient gradient, float* first, float* second, std::int64_t count,
          const Adam& coefficients, Stream stream);

struct RmsProp {
  float l2 = 0, keep = 0, share = 0, epsilon = 0, step = 0;
};
void rmsprop(float* weights, Gradient gradient, float* square, std::int64_t count,
             const RmsProp& coefficients, Stream stream);

}  // namespace dpo::cuda
