#include "model/matrix.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include "ops/generator.h"

namespace dpo::model {
namespace {

at::Tensor dropped(const at::Tensor& x, const Dropout& dropout) {
  if (dropout.rate == 0) return x;
  at::Tensor mask;
  {
    const at::NoGradGuard no_grad;
    mask = at::empty_like(x)
               .bernoulli_(1 - dropout.rate, ops::seeded_generator(x.device(), dropout.seed))
               .div_(1 - dropout.rate);
  }
  return x * mask;
}

// [out, in] in float32 with scale * b a, without DoRA.
at::Tensor sum_of(const Matrix& matrix) {
  const at::Tensor rows = (matrix.transposed ? matrix.weight.t() : matrix.weight).to(at::kFloat);
  if (!matrix.lora || !matrix.lora->b.defined()) return rows;
  const Lora& lora = *matrix.lora;
  return at::addmm(rows, lora.b.to(at::kFloat), lora.a.to(at::kFloat), /*beta=*/1, lora.scale);
}

// DoRA: what each output is multiplied by, [out]. The norms are constants for autograd (section 4.3 of the
// paper). They are rounded as the magnitude is, so that it is exactly 1 at first.
at::Tensor gain_of(const Matrix& matrix) {
  const at::Tensor& magnitude = matrix.lora->magnitude;
  return magnitude / row_norms(matrix).to(magnitude.scalar_type());
}

at::Tensor linear_with_lora(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias) {
  const Lora& lora = *matrix.lora;
  const Matrix own{matrix.weight, matrix.transposed};
  const at::Tensor read = dropped(x, lora.dropout);
  const at::Tensor inner = at::linear(read, lora.a);  // [tokens, r]
  if (!lora.magnitude.defined())
    return linear(x, own, bias).addmm_(inner, lora.b.t(), /*beta=*/1, lora.scale);
  const auto added_to = [&](const at::Tensor& product) {
    return at::addmm(product, inner, lora.b.t(), /*beta=*/1, lora.scale);
  };
  const at::Tensor product = linear(x, own);
  const at::Tensor gain = gain_of(matrix);
  at::Tensor y;
  if (lora.dropout.rate == 0) {
    y = gain * added_to(product);
  } else {  // as in PEFT, the change of W x by the gain is of the x with dropout
    const at::Tensor of_read = linear(read, own);
    y = product + (gain * added_to(of_read) - of_read);
  }
  return bias.defined() ? y + bias : y;
}

// DoRA and dropout need products of their own.
bool is_plain_lora(const Matrix& matrix) {
  return matrix.lora && !matrix.lora->magnitude.defined() && matrix.lora->dropout.rate == 0;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias) {
  if (matrix.lora) return linear_with_lora(x, matrix, bias);
  if (!matrix.transposed)
    return at::linear(x, matrix.weight, bias.defined() ? std::optional(bias) : std::nullopt);
  return bias.defined() ? at::addmm(bias, x, matrix.weight) : at::mm(x, matrix.weight);
}

std::vector<at::Tensor> linear_each(const at::Tensor& x, const std::vector<Matrix>& matrices,
                                    const std::vector<at::Tensor>& biases) {
  std::vector<at::Tensor> products;
  if (!std::ranges::all_of(matrices, is_plain_lora)) {
    for (std::size_t i = 0; i < matrices.size(); ++i) products.push_back(linear(x, matrices[i], biases[i]));
    return products;
  }
  std::vector<at::Tensor> all;
  for (const Matrix& matrix : matrices) all.push_back(matrix.lora->a);
  const at::Tensor inner = at::linear(x, at::cat(all));  // [tokens, sum of ranks]
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto& [weight, transposed, lora] = matrices[i];
    const std::int64_t rank = lora->a.size(0);
    products.push_back(linear(x, {weight, transposed}, biases[i])
                           .addmm_(inner.narrow(1, begin, rank), lora->b.t(), /*beta=*/1, lora->scale));
    begin += rank;
  }
  return products;
}

at::Tensor merged(const Matrix& matrix) {
  const at::NoGradGuard no_grad;
  at::Tensor rows = sum_of(matrix);
  if (matrix.lora && matrix.lora->magnitude.defined())
    rows = rows * gain_of(matrix).to(at::kFloat).unsqueeze(1);
  return matrix.transposed ? rows.t() : rows;
}

at::Tensor row_norms(const Matrix& matrix) {
  const at::NoGradGuard no_grad;
  const at::Tensor squares = sum_of(matrix).square().sum(1);
  if (matrix.lora && matrix.lora->input_group) matrix.lora->input_group->all_reduce(squares).wait();
  return squares.sqrt();
}

}  // namespace dpo::model
