#include <stdexcept>

#include "ops/fused_layers.h"

namespace dpo::ops::fused {
namespace {

[[noreturn]] void no_kernels() { throw std::logic_error("this program was built without CUDA kernels"); }

}  // namespace

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

bool supports_rotation(const Heads&, const Angles&) { return false; }

void rotate_heads(const Heads&, const Angles&) { no_kernels(); }

void rotate_heads_back(const Heads&, const Angles&, const Heads&) { no_kernels(); }

}  // namespace dpo::ops::fused
