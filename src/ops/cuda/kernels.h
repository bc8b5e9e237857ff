// Declares our own CUDA kernels, each a single pass over memory. Needs neither LibTorch's headers nor CUDA's.
// Arrays are on the current device. A failed launch throws std::runtime_error.
#pragma once

#include <cstdint>

namespace dpo::cuda {

using Stream = void*;  // a cudaStream_t

enum class Type { float32, bfloat16, float16 };

// Rotates pairs of dimensions of every head by the angles of its token. Strides are in elements. The result
// is contiguous.
struct Rotary {
  const void* in = nullptr;
  void* out = nullptr;
  Type type = Type::float32;
  std::int64_t tokens = 0, heads = 0, head_dim = 0, token_stride = 0, head_stride = 0;
  const float* cos = nullptr;  // [tokens, pairs]
  const float* sin = nullptr;
  std::int64_t pairs = 0;
  bool interleaved = false;
  float direction = 1;  // -1: the inverse rotation
};
void apply_rotary(const Rotary& rotary, Stream stream);

// Merges attention over two sets of keys. Outputs are [tokens, heads, head_dim], contiguous; lse is
// [heads, tokens] with a stride between heads.
struct Merge {
  void* out = nullptr;  // output of the first set, and the result
  const void* other = nullptr;
  Type type = Type::float32;
  float* lse = nullptr;
  const float* other_lse = nullptr;
  std::int64_t lse_stride = 0, other_lse_stride = 0;
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
};
void merge(const Merge& merge, Stream stream);

// Rows of logits over the vocabulary, or over a rank's shard of it; contiguous.
struct LogitRows {
  Type type = Type::float32;
  std::int64_t rows = 0, columns = 0;
  const std::int64_t* targets = nullptr;  // [rows], in the whole vocabulary
  std::int64_t first_column = 0;          // first vocabulary index of the shard
  float cap = 0;                          // if not 0, the logit is replaced by cap * tanh(logit / cap)
};

// Requested results of each row, [rows]. A null result is not computed.
struct RowResults {
  float* lse = nullptr;            // log-sum-exp
  float* target_logits = nullptr;  // 0 if the target is in another shard
  float* log_probs = nullptr;      // of the target, which must be in the row
  float* entropy = nullptr;
};
void score_rows(const void* logits, const LogitRows& rows, const RowResults& results, Stream stream);

// Overwrites the logits with the gradient of sum(scale * log_prob(target)) with respect to them.
void score_rows_backward(void* logits, const LogitRows& rows, const float* lse, const float* scale,
                         Stream stream);

// Arrays of an update with `count` elements each. `count` is a multiple of 8, or of 256 with 8-bit state.
struct Update {
  void* weights = nullptr;
  Type weight_type = Type::float32;  // or bfloat16, rounded stochastically unless there is a rest
  std::uint16_t* low = nullptr;      // rest of float32 weights in two parts (ops/split_floats.h)
  std::uint8_t* carries = nullptr;
  const void* gradient = nullptr;
  Type gradient_type = Type::float32;
  float gradient_scale = 1;  // applied before anything else
  void* copy = nullptr;      // receives the updated weights; null: none
  Type copy_type = Type::float32;
  std::int64_t count = 0;
  std::uint64_t key = 0;   // for the random bits of rounding (ops/state_math.h)
  std::int64_t first = 0;  // index of the first element for the random bits
};

// An array of optimizer state. All arrays of an update are stored in the same way.
enum class StateType { float32, bfloat16, codes };
struct State {
  StateType type = StateType::float32;
  void* values = nullptr;      // bfloat16 is rounded stochastically
  float* absmax = nullptr;     // for codes: the largest magnitude of each 256
  const float* map = nullptr;  // for codes: the 256 numbers that they stand for, ascending
};

// Coefficients named as in torch.optim. `step_size` is negative, because the update is added.
struct Adam {
  float l2 = 0;     // weight decay added to the gradient
  float decay = 1;  // factor applied to the weight before the update
  float one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0;
  float sqrt_bias_correction2 = 1, epsilon = 0, step_size = 0;
};
void adam(const Update& update, const State& exp_avg, const State& exp_avg_sq, const Adam& coefficients,
          Stream stream);

struct RmsProp {
  float l2 = 0, alpha = 0, one_minus_alpha = 0, epsilon = 0, step_size = 0;
};
void rmsprop(const Update& update, const State& square_avg, const RmsProp& coefficients, Stream stream);

// Writes the values of a quantized matrix (ops/quantized_matrix.h) to `out`, [rows, columns].
struct Dequantize {
  const std::uint8_t* codes = nullptr;
  std::int64_t rows = 0, columns = 0;
  void* out = nullptr;
  Type type = Type::float32;
};

// Scales of nf4, one for each block of 2^block_bits elements, as codes or as `values`.
struct Nf4Scales {
  const std::uint8_t* codes = nullptr;
  const float* nested = nullptr;  // one per 256 codes
  float offset = 0;
  const float* values = nullptr;
  int block_bits = 6;
};
void from_nf4(const Dequantize& matrix, const Nf4Scales& scales, Stream stream);

// `scales` is [rows].
void from_int8(const Dequantize& matrix, const float* scales, Stream stream);
void from_fp8(const Dequantize& matrix, const float* scales, Stream stream);

// A bfloat16 matrix, [rows, columns], to quantize to e4m3 (ops/fp8.h). `columns` is a multiple of 16.
struct ToFp8 {
  const void* in = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::uint8_t* codes = nullptr;  // in the order of the matrix, or of its transpose
  float* scales = nullptr;        // one per row of the codes
};
void fp8_rows(const ToFp8& matrix, Stream stream);
// Quantizes the transpose; `rows` must be a multiple of 16 too. `largest` is [columns] and starts as zeros.
void fp8_columns(const ToFp8& matrix, std::uint32_t* largest, Stream stream);

// Writes the time when the stream gets here, and makes the stream wait until `nanoseconds` after that time.
void mark_time(std::int64_t* time, Stream stream);
void wait_since(const std::int64_t* time, std::int64_t nanoseconds, Stream stream);

}  // namespace dpo::cuda
