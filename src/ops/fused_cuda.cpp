#include <algorithm>
#include <bit>
#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/number_formats.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layers.h"
#include "ops/cuda/tensors.h"
#include "ops/fused.h"
#include "ops/quantized_formats.h"
#include "ops/state_math.h"

namespace dpo::ops::fused {
namespace {

using cuda::Launch, cuda::type_of;

bool is_flat_float(const at::Tensor& tensor) {
  return tensor.is_cuda() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

float* floats(at::Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

// Returns the logits' rows in the kernels' form.
cuda::LogitRows rows_of(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first_row,
                        double cap) {
  return {.type = *type_of(logits),
          .rows = logits.size(0),
          .columns = logits.size(1),
          .targets = targets.const_data_ptr<std::int64_t>(),
          .first_column = first_row,
          .cap = static_cast<float>(cap)};
}

at::Tensor float_per_row(const at::Tensor& logits) {
  return at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
}

bool is_flat(const at::Tensor& tensor) {
  return type_of(tensor) && tensor.is_cuda() && tensor.is_contiguous();
}

cuda::Nf4Scales nf4_scales_of(const QuantizedMatrix& matrix) {
  cuda::Nf4Scales scales{.offset = matrix.offset,
                         .block_bits = std::countr_zero(static_cast<std::uint64_t>(matrix.block))};
  if (matrix.nested.defined()) {
    scales.codes = matrix.scales.const_data_ptr<std::uint8_t>();
    scales.nested = matrix.nested.const_data_ptr<float>();
  } else {
    scales.values = matrix.scales.const_data_ptr<float>();
  }
  return scales;
}

bool is_aligned(const at::Tensor& tensor, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % bytes == 0;
}

// True if the rows of a matrix can be read in packs of 16 bytes.
bool fits_packs(const at::Tensor& matrix) {
  return matrix.is_cuda() && matrix.scalar_type() == at::kBFloat16 && matrix.is_contiguous() &&
         matrix.size(1) % kFp8Multiple == 0 && is_aligned(matrix, 16);
}

Fp8Matrix empty_fp8(const at::Tensor& like, std::int64_t rows, std::int64_t columns) {
  return {at::empty({rows, columns}, like.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({rows, 1}, like.options().dtype(at::kFloat))};
}

cuda::ToFp8 fp8_call(Fp8Matrix& result, const at::Tensor& matrix) {
  return {.in = matrix.const_data_ptr(),
          .rows = matrix.size(0),
          .columns = matrix.size(1),
          .codes = static_cast<std::uint8_t*>(result.codes.mutable_data_ptr()),
          .scales = floats(result.scales)};
}

bool supports_state(const StoredArray& array) {
  const at::Tensor& values = array.values;
  if (!values.is_cuda() || !values.is_contiguous()) return false;
  switch (values.scalar_type()) {
    case at::kFloat:
    case at::kBFloat16: return true;
    case at::kByte: return values.numel() % kStateGroup == 0;
    default: return false;
  }
}

// Returns an array of state in the kernels' form.
cuda::State state_of(const StoredArray& array) {
  const at::Tensor& values = array.values;
  cuda::State state{.values = values.mutable_data_ptr()};
  if (values.scalar_type() == at::kBFloat16) state.type = cuda::StateType::bfloat16;
  if (values.scalar_type() == at::kByte) {
    state.type = cuda::StateType::codes;
    state.absmax = array.absmax.mutable_data_ptr<float>();
    state.map = array.map.const_data_ptr<float>();
  }
  return state;
}

// Returns the arrays of an update in the kernels' form.
cuda::Update update_of(const StoredArray& array, const at::Tensor& gradient,
                       const UpdateArguments& arguments) {
  const at::Tensor &weights = array.values, &copy = arguments.copy;
  cuda::Update update{.weights = weights.mutable_data_ptr(),
                      .weight_type = *type_of(weights),
                      .gradient = gradient.const_data_ptr(),
                      .gradient_type = *type_of(gradient),
                      .gradient_scale = static_cast<float>(arguments.gradient_scale),
                      .count = weights.numel(),
                      .key = splitmix64(arguments.seed),
                      .first = arguments.first};
  if (array.rest.defined()) {
    update.low = static_cast<std::uint16_t*>(array.rest.low.mutable_data_ptr());
    update.carries = array.rest.carries.mutable_data_ptr<std::uint8_t>();
  }
  if (copy.defined()) {
    update.copy = copy.mutable_data_ptr();
    update.copy_type = *type_of(copy);
  }
  return update;
}

}  // namespace

bool has_kernels() { return true; }

bool supports_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return x.is_cuda() && type_of(x) && x.stride(2) == 1 && is_flat_float(cos) && is_flat_float(sin);
}

at::Tensor apply_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved,
                        float direction) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  cuda::apply_rotary({.in = x.const_data_ptr(),
                      .out = out.mutable_data_ptr(),
                      .type = *type_of(x),
                      .tokens = x.size(0),
                      .heads = x.size(1),
                      .head_dim = x.size(2),
                      .token_stride = x.stride(0),
                      .head_stride = x.stride(1),
                      .cos = cos.const_data_ptr<float>(),
                      .sin = sin.const_data_ptr<float>(),
                      .pairs = cos.size(1),
                      .interleaved = interleaved,
                      .direction = direction},
                     Launch(x));
  return out;
}

bool supports_merge(const AttentionOutput& one, const AttentionOutput& other) {
  return is_flat(one.out) && other.out.is_contiguous() && one.lse.scalar_type() == at::kFloat &&
         other.lse.scalar_type() == at::kFloat && one.lse.stride(1) == 1 && other.lse.stride(1) == 1;
}

void merge(AttentionOutput& one, const AttentionOutput& other) {
  cuda::merge({.out = one.out.mutable_data_ptr(),
               .other = other.out.const_data_ptr(),
               .type = *type_of(one.out),
               .lse = floats(one.lse),
               .other_lse = other.lse.const_data_ptr<float>(),
               .lse_stride = one.lse.stride(0),
               .other_lse_stride = other.lse.stride(0),
               .tokens = one.out.size(0),
               .heads = one.out.size(1),
               .head_dim = one.out.size(2)},
              Launch(one.out));
}

bool supports_scoring(const at::Tensor& logits, const at::Tensor& targets) {
  return is_flat(logits) && targets.is_contiguous();
}

RowScores score_rows(const at::Tensor& logits, const at::Tensor& targets, bool with_entropy, double cap) {
  RowScores scores{float_per_row(logits), float_per_row(logits),
                   with_entropy ? float_per_row(logits) : at::Tensor(), /*only_read=*/true};
  cuda::score_rows(logits.const_data_ptr(), rows_of(logits, targets, 0, cap),
                   {.lse = floats(scores.lse),
                    .log_probs = floats(scores.log_probs),
                    .entropy = with_entropy ? floats(scores.entropy) : nullptr},
                   Launch(logits));
  return scores;
}

ShardScores score_shard_rows(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first_row,
                             double cap) {
  ShardScores scores{float_per_row(logits), float_per_row(logits)};
  cuda::score_rows(logits.const_data_ptr(), rows_of(logits, targets, first_row, cap),
                   {.lse = floats(scores.lse), .target_logits = floats(scores.target_logits)},
                   Launch(logits));
  return scores;
}

bool supports_scoring_backward(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                               const at::Tensor& scale) {
  return supports_scoring(logits, targets) && is_flat_float(lse) && is_flat_float(scale);
}

void score_rows_backward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse,
                         const at::Tensor& scale, std::int64_t first_row, double cap) {
  cuda::score_rows_backward(logits.mutable_data_ptr(), rows_of(logits, targets, first_row, cap),
                            lse.const_data_ptr<float>(), scale.const_data_ptr<float>(), Launch(logits));
}

bool supports_row_sums(const at::Tensor& to, const at::Tensor& from) {
  constexpr std::uintptr_t kPack = 32;  // bytes of 8 float32 numbers
  return is_flat(to) && is_flat(from) && cuda::supports_row_sums(to.size(1)) && is_aligned(from, kPack) &&
         is_aligned(to, kPack);
}

void add_row_sums(at::Tensor& to, const at::Tensor& from, const RowSums& sums) {
  cuda::add_row_sums({.in_type = *type_of(from),
                      .out_type = *type_of(to),
                      .in = from.const_data_ptr(),
                      .out = to.mutable_data_ptr(),
                      .width = to.size(1),
                      .sums = sums.rows.size(0),
                      .rows = sums.rows.const_data_ptr<std::int32_t>(),
                      .starts = sums.starts.const_data_ptr<std::int32_t>(),
                      .source_rows = sums.source_rows.const_data_ptr<std::int32_t>()},
                     Launch(to));
}

bool supports_dequantize(const at::Tensor& into) { return is_flat(into) && into.dim() == 2; }

void dequantize(at::Tensor& into, const QuantizedMatrix& matrix) {
  const cuda::Dequantize quantized{.codes = matrix.codes.const_data_ptr<std::uint8_t>(),
                                   .rows = into.size(0),
                                   .columns = into.size(1),
                                   .out = into.mutable_data_ptr(),
                                   .type = *type_of(into)};
  const Launch launch(into);
  switch (matrix.dtype) {
    case QuantizedDtype::nf4: cuda::from_nf4(quantized, nf4_scales_of(matrix), launch); break;
    case QuantizedDtype::int8:
      cuda::from_int8(quantized, matrix.scales.const_data_ptr<float>(), launch);
      break;
    case QuantizedDtype::fp8: cuda::from_fp8(quantized, matrix.scales.const_data_ptr<float>(), launch); break;
  }
}

bool supports_fp8_rows(const at::Tensor& matrix) { return fits_packs(matrix); }

Fp8Matrix fp8_rows(const at::Tensor& matrix) {
  Fp8Matrix result = empty_fp8(matrix, matrix.size(0), matrix.size(1));
  cuda::fp8_rows(fp8_call(result, matrix), Launch(matrix));
  return result;
}

bool supports_fp8_columns(const at::Tensor& matrix) {
  return fits_packs(matrix) && matrix.size(0) % kFp8Multiple == 0;
}

Fp8Matrix fp8_columns(const at::Tensor& matrix) {
  Fp8Matrix result = empty_fp8(matrix, matrix.size(1), matrix.size(0));
  const at::Tensor largest = at::zeros({matrix.size(1)}, matrix.options().dtype(at::kInt));
  cuda::fp8_columns(fp8_call(result, matrix), static_cast<std::uint32_t*>(largest.mutable_data_ptr()),
                    Launch(matrix));
  return result;
}

bool supports_update(const StoredArray& weights, const at::Tensor& gradients,
                     std::span<const StoredArray> state, const at::Tensor& copy) {
  constexpr std::int64_t kWidth = 8;  // elements per thread
  const std::int64_t count = weights.values.numel();
  return is_flat(weights.values) && weights.values.scalar_type() != at::kHalf && count % kWidth == 0 &&
         (!weights.rest.defined() || weights.rest.low.numel() == count) && is_flat(gradients) &&
         (!copy.defined() || is_flat(copy)) && std::ranges::all_of(state, supports_state);
}

void adam(const StoredArray& weights, const at::Tensor& gradients, const StoredArray& exp_avg,
          const StoredArray& exp_avg_sq, const AdamArguments& n) {
  const auto step = static_cast<double>(n.step);
  cuda::Adam c;
  c.l2 = static_cast<float>(n.l2);
  c.decay = static_cast<float>(1 - n.lr * n.decoupled);
  c.one_minus_beta1 = static_cast<float>(1 - n.beta1);
  c.beta2 = static_cast<float>(n.beta2);
  c.one_minus_beta2 = static_cast<float>(1 - n.beta2);
  c.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1 - std::pow(n.beta2, step)));
  c.epsilon = static_cast<float>(n.epsilon);
  c.step_size = static_cast<float>(-n.lr / (1 - std::pow(n.beta1, step)));
  cuda::adam(update_of(weights, gradients, n), state_of(exp_avg), state_of(exp_avg_sq), c,
             Launch(weights.values));
}

void rmsprop(const StoredArray& weights, const at::Tensor& gradients, const StoredArray& square_avg,
             const RmsPropArguments& n) {
  const cuda::RmsProp c{.l2 = static_cast<float>(n.l2),
                        .alpha = static_cast<float>(n.alpha),
                        .one_minus_alpha = static_cast<float>(1 - n.alpha),
                        .epsilon = static_cast<float>(n.epsilon),
                        .step_size = static_cast<float>(-n.lr)};
  cuda::rmsprop(update_of(weights, gradients, n), state_of(square_avg), c, Launch(weights.values));
}

bool mark_time(const at::Tensor& time) {
  if (!time.is_cuda()) return false;
  cuda::mark_time(time.mutable_data_ptr<std::int64_t>(), Launch(time));
  return true;
}

bool wait_since(const at::Tensor& time, double seconds) {
  if (!time.is_cuda()) return false;
  cuda::wait_since(time.const_data_ptr<std::int64_t>(), std::llround(1e9 * seconds), Launch(time));
  return true;
}

}  // namespace dpo::ops::fused
