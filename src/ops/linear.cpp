#include "ops/linear.h"

#include <optional>

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/column_sums.h"
#include "ops/fp8.h"
#include "ops/matmul.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using Bias = std::optional<at::Tensor>;

at::Tensor matmul_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed,
                     bool fp8) {
  if (!fp8) return matmul(x, weight, bias, transposed);
  return fp8_matmul(fp8_rows(x), transposed ? fp8_columns(weight) : fp8_rows(weight), bias, x.scalar_type(),
                    /*fast=*/true);
}

at::Tensor gradient_of_x(const at::Tensor& gradient, const at::Tensor& weight, bool transposed, bool fp8) {
  if (fp8)
    return fp8_matmul(fp8_rows(gradient), transposed ? fp8_rows(weight) : fp8_columns(weight), {},
                      gradient.scalar_type(), /*fast=*/false);
  return matmul(gradient, weight, {}, !transposed);
}

struct Linear : torch::autograd::Function<Linear> {
  // Holds the sum in the autograd graph.
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<GradientSum> held) : sum(std::move(held)) {}
    std::shared_ptr<GradientSum> sum;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const Bias& bias, bool transposed, const std::shared_ptr<GradientSum>& sum,
                            bool fp8) {
    // The backward pass needs x only for the weight gradient, so a frozen weight does not keep x.
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    ctx->saved_data["transposed"] = transposed;
    ctx->saved_data["fp8"] = fp8;
    ctx->saved_data["has_bias"] = bias.has_value();
    ctx->saved_data["sum"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(sum));
    return matmul_of(x, weight, bias.value_or(at::Tensor()), transposed, fp8);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &gradient = grads[0], &x = saved[0], &weight = saved[1];
    const bool transposed = ctx->saved_data["transposed"].toBool();
    const auto capsule = ctx->saved_data["sum"].toCapsule();
    GradientSum& sum = *static_cast<const Holder&>(*capsule).sum;
    at::Tensor of_x, of_weight, of_bias;
    if (ctx->needs_input_grad(0))
      of_x = gradient_of_x(gradient, weight, transposed, ctx->saved_data["fp8"].toBool());
    if (ctx->needs_input_grad(1)) {
      const at::Tensor &a = transposed ? x : gradient, &b = transposed ? gradient : x;
      if (sum.tensor.defined())
        sum.add_matmul(a, b);
      else
        of_weight = at::mm(a.t(), b);
    }
    if (ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2)) of_bias = column_sums(gradient);
    return {of_x, of_weight, of_bias, Variable(), Variable(), Variable()};
  }
};

}  // namespace

void GradientSum::add(const at::Tensor& gradient) {
  take_overwrite() ? tensor.copy_(gradient) : tensor.add_(gradient);
}

const at::Tensor& GradientSum::to_add_to() {
  if (take_overwrite()) tensor.zero_();
  return tensor;
}

void GradientSum::add_each(const std::vector<GradientSum*>& sums, const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> replaced, values, added_to, summands;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const bool first = sums[i]->take_overwrite();
    (first ? replaced : added_to).push_back(sums[i]->tensor);
    (first ? values : summands).push_back(gradients[i]);
  }
  if (!replaced.empty()) at::_foreach_copy_(replaced, values);
  if (!added_to.empty()) at::_foreach_add_(added_to, summands);
}

void GradientSum::add_matmul(const at::Tensor& a, const at::Tensor& b) {
  const bool is_wider = tensor.scalar_type() != a.scalar_type();
  const bool can_widen =
      tensor.is_cuda() && tensor.scalar_type() == at::kFloat && a.scalar_type() != at::kDouble;
  if (is_wider && !can_widen) return add(at::mm(a.t(), b));
  take_overwrite() ? matmul_into(tensor, a.t(), b) : add_matmul_to(tensor, a.t(), b);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool transposed,
                  const std::shared_ptr<GradientSum>& sum, bool fp8) {
  const bool in_fp8 = fp8 && fits_fp8(weight);
  if (!sum && !in_fp8) return matmul(x, weight, bias, transposed);
  return Linear::apply(x, weight, bias.defined() ? Bias(bias) : std::nullopt, transposed,
                       sum ? sum : std::make_shared<GradientSum>(), in_fp8);
}

}  // namespace dpo::ops
