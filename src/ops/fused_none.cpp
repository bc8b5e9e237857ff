// Stands for all kernels of fused.h, fused_layers.h and fused_trees.h in a build without nvcc.
#include <stdexcept>

#include "ops/fused.h"
#include "ops/fused_layers.h"
#include "ops/fused_trees.h"

namespace dpo::ops::fused {
namespace {

[[noreturn]] void no_kernels() { throw std::logic_error("this program was built without CUDA kernels"); }

}  // namespace

bool has_kernels() { return false; }

bool supports_rotary(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return false; }

at::Tensor apply_rotary(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool, float) {
  no_kernels();
}

bool supports_merge(const AttentionOutput&, const AttentionOutput&) { return false; }

void merge(AttentionOutput&, const AttentionOutput&) { no_kernels(); }

bool supports_scoring(const at::Tensor&, const at::Tensor&) { return false; }

RowScores score_rows(const at::Tensor&, const at::Tensor&, bool, double) { no_kernels(); }

ShardScores score_shard_rows(const at::Tensor&, const at::Tensor&, std::int64_t, double) { no_kernels(); }

bool supports_scoring_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  return false;
}

void score_rows_backward(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t,
                         double) {
  no_kernels();
}

bool supports_row_sums(const at::Tensor&, const at::Tensor&) { return false; }

void add_row_sums(at::Tensor&, const at::Tensor&, const RowSums&) { no_kernels(); }

bool supports_dequantize(const at::Tensor&) { return false; }

void dequantize(at::Tensor&, const QuantizedMatrix&) { no_kernels(); }

bool supports_fp8_rows(const at::Tensor&) { return false; }

Fp8Matrix fp8_rows(const at::Tensor&) { no_kernels(); }

bool supports_fp8_columns(const at::Tensor&) { return false; }

Fp8Matrix fp8_columns(const at::Tensor&) { no_kernels(); }

bool supports_update(const StoredArray&, const at::Tensor&, std::span<const StoredArray>, const at::Tensor&) {
  return false;
}

void adam(const StoredArray&, const at::Tensor&, const StoredArray&, const StoredArray&,
          const AdamArguments&) {
  no_kernels();
}

void rmsprop(const StoredArray&, const at::Tensor&, const StoredArray&, const RmsPropArguments&) {
  no_kernels();
}

bool mark_time(const at::Tensor&) { return false; }

bool wait_since(const at::Tensor&, double) { return false; }

bool supports_norm(const at::Tensor&, const at::Tensor&, const std::vector<NormWeights>&) { return false; }

NormResult norm(const at::Tensor&, const at::Tensor&, const std::vector<NormWeights>&, const NormOptions&) {
  no_kernels();
}

NormGradients norm_backward(const NormResult&, const std::vector<NormWeights>&, const NormOptions&,
                            const at::Tensor&, const std::vector<at::Tensor>&) {
  no_kernels();
}

bool supports_gated(const GateUp&) { return false; }

at::Tensor gated(const GateUp&, Activation) { no_kernels(); }

void gated_backward(const GateUp&, Activation, const at::Tensor&, const GateUp&) { no_kernels(); }

bool supports_bias_activation(const at::Tensor&, const at::Tensor&) { return false; }

at::Tensor activate_with_bias(const at::Tensor&, const at::Tensor&, Activation) { no_kernels(); }

BiasGradients activate_with_bias_backward(const at::Tensor&, const at::Tensor&, Activation,
                                          const at::Tensor&) {
  no_kernels();
}

bool supports_column_sums(const at::Tensor&, at::ScalarType) { return false; }

at::Tensor column_sums(const at::Tensor&, at::ScalarType) { no_kernels(); }

bool supports_add_three(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return false; }

at::Tensor add_three(const at::Tensor&, const at::Tensor&, const at::Tensor&) { no_kernels(); }

bool supports_rotation(const Heads&, const RotaryAngles&) { return false; }

void rotate_heads(const Heads&, const RotaryAngles&) { no_kernels(); }

void rotate_heads_back(const Heads&, const RotaryAngles&, const Heads&) { no_kernels(); }

bool has_tree_kernels(at::Device) { return false; }

bool suits_long_sequences(const at::Tensor&) { return false; }

bool supports_trees(const at::Tensor&, const at::Tensor&, const at::Tensor&, const TreeTensors&,
                    const AttentionOptions&) {
  return false;
}

AttentionOutput attend_trees(const at::Tensor&, const at::Tensor&, const at::Tensor&, const TreeTensors&,
                             const AttentionOptions&) {
  no_kernels();
}

bool supports_trees_backward(const at::Tensor&, const AttentionOutput&) { return false; }

AttentionGradients attend_trees_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         const at::Tensor&, const AttentionOutput&, const TreeTensors&,
                                         const AttentionOptions&) {
  no_kernels();
}

}  // namespace dpo::ops::fused
