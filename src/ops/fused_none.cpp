#include "ops/fused.h"

namespace dpo::ops::fused {

bool has_kernels() { return false; }

bool apply_rotary(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool, float) {
  return false;
}

bool merge(AttentionOutput&, const AttentionOutput&) { return false; }

bool score_rows(RowScores&, const at::Tensor&, const at::Tensor&, bool, double) { return false; }

bool score_shard_rows(ShardScores&, const at::Tensor&, const at::Tensor&, std::int64_t, double) {
  return false;
}

bool score_rows_backward(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t,
                         double) {
  return false;
}

bool add_row_sums(at::Tensor&, const at::Tensor&, const RowSums&) { return false; }

bool dequantize(at::Tensor&, const QuantizedMatrix&) { return false; }

bool fp8_rows(Fp8Matrix&, const at::Tensor&) { return false; }
bool fp8_columns(Fp8Matrix&, const at::Tensor&) { return false; }

bool adam(const StoredArray&, const at::Tensor&, const StoredArray&, const StoredArray&,
          const AdamArguments&) {
  return false;
}

bool rmsprop(const StoredArray&, const at::Tensor&, const StoredArray&, const RmsPropArguments&) {
  return false;
}

}  // namespace dpo::ops::fused
