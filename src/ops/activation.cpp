#include "ops/activation.h"

#include <optional>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/fused_layers.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

fused::GateUp halves_of(const at::Tensor& gate_up) {
  const std::int64_t width = gate_up.size(-1) / 2;
  return {gate_up.narrow(-1, 0, width), gate_up.narrow(-1, width, width)};
}

// Takes gate and up, or one matrix that holds both.
struct GatedActivation : torch::autograd::Function<GatedActivation> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const std::optional<at::Tensor>& up,
                            std::int64_t activation) {
    ctx->save_for_backward({gate, up.value_or(at::Tensor())});
    ctx->saved_data["activation"] = activation;
    return fused::gated(up ? fused::GateUp{gate, *up} : halves_of(gate), static_cast<Activation>(activation));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const at::Tensor gate = at::empty_like(saved[0]);
    if (!saved[1].defined()) {
      fused::gated_backward(halves_of(saved[0]), activation, grads[0], halves_of(gate));
      return {gate, Variable(), Variable()};
    }
    const at::Tensor up = at::empty_like(saved[1]);
    fused::gated_backward({saved[0], saved[1]}, activation, grads[0], {gate, up});
    return {gate, up, Variable()};
  }
};

struct FusedBiasActivation : torch::autograd::Function<FusedBiasActivation> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const std::optional<at::Tensor>& bias,
                            std::int64_t activation) {
    ctx->save_for_backward({x, bias.value_or(at::Tensor())});
    ctx->saved_data["activation"] = activation;
    return fused::activate_with_bias(x, bias.value_or(at::Tensor()), static_cast<Activation>(activation));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const fused::BiasGradients found =
        fused::activate_with_bias_backward(saved[0], saved[1], activation, grads[0]);
    return {found.x, found.bias, Variable()};
  }
};

}  // namespace

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu: return at::gelu(x);
    case Activation::gelu_tanh: return at::gelu(x, "tanh");
    case Activation::relu: return at::relu(x);
    case Activation::silu: break;
  }
  return at::silu(x);
}

at::Tensor gated_activation(const at::Tensor& gate_up, Activation activation) {
  if (gate_up.is_cuda() && gate_up.is_contiguous() && fused::supports_gated(halves_of(gate_up)))
    return GatedActivation::apply(gate_up, std::optional<at::Tensor>(),
                                  static_cast<std::int64_t>(activation));
  const std::vector<at::Tensor> both = gate_up.chunk(2, -1);
  return activate(both[0], activation) * both[1];
}

at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  if (gate.is_contiguous() && fused::supports_gated({gate, up}))
    return GatedActivation::apply(gate, std::optional(up), static_cast<std::int64_t>(activation));
  return activate(gate, activation) * up;
}

bool fuses_bias_activation(const at::Tensor& x) { return fused::supports_bias_activation(x, {}); }

at::Tensor bias_activation(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  if (fused::supports_bias_activation(x, bias))
    return FusedBiasActivation::apply(x, bias.defined() ? std::optional(bias) : std::nullopt,
                                      static_cast<std::int64_t>(activation));
  return activate(bias.defined() ? x + bias : x, activation);
}

}  // namespace dpo::ops
