// Our own CUDA kernels, each a single pass over memory. Needs neither LibTorch's headers nor CUDA's. Arrays
// are on the current device; a failed launch throws std::runtime_error.
#pragma once

#include <cstdint>

namespace dpo::cuda {

using Stream = void*;  // a cudaStream_t

enum class Type { float32, bfloat16, float16 };

// Rotates pairs of dimensions of every head by the angles of its token. Strides are in elements; the result
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
  void* out = nullptr;  // of the first, and the result
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
  std::int64_t first_column = 0;          // the shard's first in the vocabulary
  float cap = 0;                          // cap * tanh(logit / cap) counts instead of the logit; 0: none
};

// What is wanted of each row, [rows]; null: nothing.
struct RowResults {
  float* lse = nullptr;            // log-sum-exp
  float* target_logits = nullptr;  // 0 if the target is in another shard
  float* log_probs = nullptr;      // of the target, which must be in the row
  float* entropy = nullptr;
};
void score_rows(const void* logits, const LogitRows& rows, const RowResults& results, Stream stream);

// The logits become the gradient of sum(scale * log_prob(target)) by them.
void score_rows_backward(void* logits, const LogitRows& rows, const float* lse, const float* scale,
                         Stream stream);

// The arrays of an update, of `count` elements each: a multiple of 8, or of 256 where the state has 8 bits.
struct Update {
  void* weights = nullptr;
  Type weight_type = Type::float32;  // or bfloat16, rounded stochastically unless there is a rest
  std::uint16_t* low = nullptr;      // of float32 weights in two parts (ops/split_floats.h): the rest
  std::uint8_t* carries = nullptr;
  const void* gradient = nullptr;
  Type gradient_type = Type::float32;
  float gradient_scale = 1;  // before anything else
  void* copy = nullptr;      // receives the updated weights; null: none
  Type copy_type = Type::float32;
  std::int64_t count = 0;
  std::uint64_t key = 0;   // of the random bits of rounding (ops/state_math.h)
  std::int64_t first = 0;  // the first element's number there
};

// An array of optimizer state. All arrays of an update are stored in the same way.
enum class StateType { float32, bfloat16, codes };
struct State {
  StateType type = StateType::float32;
  void* values = nullptr;      // bfloat16 is rounded stochastically
  float* absmax = nullptr;     // of codes: the largest magnitude of each 256
  const float* map = nullptr;  // of codes: the 256 numbers that they stand for, ascending
};

// Names as in torch.optim; `step_size` is negative: the update is added.
struct Adam {
  float l2 = 0;     // weight decay added to the gradient
  float decay = 1;  // factor of the weight itself, before the update
  float one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0;
  float sqrt_bias_correction2 = 1, epsilon = 0, step_size = 0;
};
void adam(const Update& update, const State& exp_avg, const State& exp_avg_sq, const Adam& coefficients,
          Stream stream);

struct RmsProp {
  float l2 = 0, alpha = 0, one_minus_alpha = 0, epsilon = 0, step_size = 0;
};
void rmsprop(const Update& update, const State& square_avg, const RmsProp& coefficients, Stream stream);

// A matrix in few bits (ops/small_matrix.h), whose values are written to `out`, [rows, columns].
struct SmallMatrix {
  const std::uint8_t* codes = nullptr;
  std::int64_t rows = 0, columns = 0;
  void* out = nullptr;
  Type type = Type::float32;
};

// The scales of nf4, for each block of 2^block_bits elements: codes, or `values`.
struct Nf4Scales {
  const std::uint8_t* codes = nullptr;
  const float* nested = nullptr;  // for each 256 codes
  float offset = 0;
  const float* values = nullptr;
  int block_bits = 6;
};
void from_nf4(const SmallMatrix& matrix, const Nf4Scales& scales, Stream stream);

// `scales`: [rows].
void from_int8(const SmallMatrix& matrix, const float* scales, Stream stream);
void from_fp8(const SmallMatrix& matrix, const float* scales, Stream stream);

// A bfloat16 matrix [rows, columns] that is quantized to e4m3 (ops/fp8.h). 16 divides its columns.
struct ToFp8 {
  const void* in = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::uint8_t* codes = nullptr;  // as the matrix, or as its transpose
  float* scales = nullptr;        // of each row of the codes
};
void fp8_rows(const ToFp8& matrix, Stream stream);
// The same of the transpose; 16 divides the rows too. `largest`: [columns], zeros at first.
void fp8_columns(const ToFp8& matrix, std::uint32_t* largest, Stream stream);

}  // namespace dpo::cuda
