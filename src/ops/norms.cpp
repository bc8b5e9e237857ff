#include "ops/norms.h"

#include <optional>

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Computes a norm with LibTorch's operators. In 16 bits, 1 + weight would lose most of the weight, and the
// gradient of a layer norm's weight would be summed in 16 bits. So both stay in float32 until the end.
at::Tensor plain_norm(const at::Tensor& x, const NormWeights& norm, const NormOptions& options) {
  const std::vector<std::int64_t> width{x.size(-1)};
  const bool widened = options.weight_offset != 0 || (options.is_layer_norm && !norm.bias.defined());
  const at::Tensor in = widened ? x.to(at::kFloat) : x;
  at::Tensor weight = widened ? norm.weight.to(at::kFloat) : norm.weight;
  if (options.weight_offset != 0) weight = weight + options.weight_offset;
  if (!options.is_layer_norm) return at::rms_norm(in, width, weight, options.epsilon).to(x.scalar_type());
  return at::layer_norm(in, width, weight, norm.bias, options.epsilon).to(x.scalar_type());
}

std::optional<at::Tensor> optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

std::vector<NormWeights> weights_of(const variable_list& saved, std::size_t norms) {
  std::vector<NormWeights> weights;
  for (std::size_t k = 0; k < norms; ++k) weights.push_back({saved[3 + k], {}});
  return weights;
}

struct AddNorm : torch::autograd::Function<AddNorm> {
  // Returns the sum, then the norms.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               const std::optional<at::Tensor>& residual, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const std::optional<at::Tensor>& second_weight,
                               const std::optional<at::Tensor>& second_bias, const NormOptions& options) {
    std::vector<NormWeights> norms = {{weight, bias.value_or(at::Tensor())}};
    if (second_weight) norms.push_back({*second_weight, second_bias.value_or(at::Tensor())});
    const fused::NormResult result = fused::norm(x, residual.value_or(at::Tensor()), norms, options);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(
        {result.sum, result.mean, result.rstd, weight, second_weight.value_or(at::Tensor())});
    ctx->saved_data["norms"] = static_cast<std::int64_t>(norms.size());
    ctx->saved_data["is_layer_norm"] = options.is_layer_norm;
    ctx->saved_data["weight_offset"] = options.weight_offset;
    ctx->saved_data["residual"] = residual.has_value();
    ctx->saved_data["bias"] = bias.has_value();
    ctx->saved_data["second_bias"] = second_bias.has_value();
    variable_list outputs = {result.sum};
    outputs.insert(outputs.end(), result.out.begin(), result.out.end());
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto has = [ctx](const char* name) { return ctx->saved_data[name].toBool(); };
    const auto norms = static_cast<std::size_t>(ctx->saved_data["norms"].toInt());
    const NormOptions options{has("is_layer_norm"), 0, ctx->saved_data["weight_offset"].toDouble()};
    const fused::NormGradients found =
        fused::norm_backward({saved[0], {}, saved[1], saved[2]}, weights_of(saved, norms), options, grads[0],
                             {grads.begin() + 1, grads.end()});
    const auto if_has = [&](const char* name, const at::Tensor& gradient) {
      return has(name) ? gradient : Variable();
    };
    const NormWeights second = norms == 2 ? found.weights[1] : NormWeights{};
    return {found.x,
            if_has("residual", found.x),
            found.weights[0].weight,
            if_has("bias", found.weights[0].bias),
            second.weight,
            if_has("second_bias", second.bias),
            Variable()};
  }
};

}  // namespace

Normed add_norm(const at::Tensor& x, const at::Tensor& residual, const std::vector<NormWeights>& norms,
                const NormOptions& options) {
  if (!fused::supports_norm(x, residual, norms)) {
    Normed result{residual.defined() ? x + residual : x, {}};
    for (const NormWeights& norm : norms) result.out.push_back(plain_norm(result.sum, norm, options));
    return result;
  }
  const NormWeights second = norms.size() == 2 ? norms[1] : NormWeights{};
  const variable_list found = AddNorm::apply(x, optional(residual), norms[0].weight, optional(norms[0].bias),
                                             optional(second.weight), optional(second.bias), options);
  return {found[0], {found.begin() + 1, found.end()}};
}

}  // namespace dpo::ops
