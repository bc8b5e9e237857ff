#include "model/matrix.h"

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

// Views the weight as [out, in].
at::Tensor rows_of(const Matrix& matrix) { return matrix.transposed ? matrix.weight.t() : matrix.weight; }

// Returns DoRA's factor of each output, [out]. The norms are constants for autograd (section 4.3 of the
// paper). They are rounded like the magnitude, so that the factor starts at exactly 1.
at::Tensor gain_of(const Matrix& matrix) {
  const at::Tensor& magnitude = matrix.lora->magnitude;
  return magnitude / row_norms(matrix).to(magnitude.scalar_type());
}

Matrix without_lora(const Matrix& matrix) {
  return {.weight = matrix.weight, .transposed = matrix.transposed, .fp8 = matrix.fp8};
}

at::Tensor linear_with_lora(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias) {
  const Lora& lora = *matrix.lora;
  const Matrix own = without_lora(matrix);
  const at::Tensor read = dropped(x, lora.dropout);
  const at::Tensor inner = at::linear(read, lora.a);  // [tokens, r]
  const at::Tensor y = linear(x, own, bias).addmm_(inner, lora.b.t(), /*beta=*/1, lora.scale);
  if (!lora.magnitude.defined()) return y;
  // The gain applies to the matmul without the bias, and to x with dropout, as in PEFT. The added term starts
  // at exactly zero, so that the policy starts as the reference in 16 bits too.
  at::Tensor scaled = y;
  if (lora.dropout.rate > 0)
    scaled = at::addmm(linear(read, own), inner, lora.b.t(), /*beta=*/1, lora.scale);
  else if (bias.defined())
    scaled = y - bias;
  return y + (gain_of(matrix) - 1) * scaled;
}

// DoRA and dropout need separate matmuls.
bool is_plain_lora(const Matrix& matrix) {
  return matrix.lora && !matrix.lora->magnitude.defined() && matrix.lora->dropout.rate == 0;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const Matrix& matrix, const at::Tensor& bias) {
  if (matrix.lora) return linear_with_lora(x, matrix, bias);
  return ops::linear(x, matrix.weight, bias, matrix.transposed, matrix.sum, matrix.fp8);
}

std::vector<at::Tensor> linear_each(const at::Tensor& x, const std::vector<Matrix>& matrices,
                                    const std::vector<at::Tensor>& biases) {
  std::vector<at::Tensor> all;
  for (const Matrix& matrix : matrices)
    if (is_plain_lora(matrix)) all.push_back(matrix.lora->a);
  at::Tensor inner;  // [tokens, sum of ranks]
  if (!all.empty()) inner = at::linear(x, at::cat(all));
  std::vector<at::Tensor> products;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (!is_plain_lora(matrices[i])) {
      products.push_back(linear(x, matrices[i], biases[i]));
      continue;
    }
    const Lora& lora = *matrices[i].lora;
    const std::int64_t rank = lora.a.size(0);
    products.push_back(linear(x, without_lora(matrices[i]), biases[i])
                           .addmm_(inner.narrow(1, begin, rank), lora.b.t(), /*beta=*/1, lora.scale));
    begin += rank;
  }
  return products;
}

at::Tensor merged(const Matrix& matrix) {
  const at::NoGradGuard no_grad;
  at::Tensor rows = rows_of(matrix).to(at::kFloat);
  if (const auto& lora = matrix.lora) {
    rows = at::addmm(rows, lora->b.to(at::kFloat), lora->a.to(at::kFloat), /*beta=*/1, lora->scale);
    if (lora->magnitude.defined())
      rows = rows * (lora->magnitude.to(at::kFloat) / rows.norm(2, {1})).unsqueeze(1);
  }
  return matrix.transposed ? rows.t() : rows;
}

// Expands |w + s b a|^2 of a row to |w|^2 + 2 s b (a w) + s^2 b (a a') b', so that no matrix of the size of w
// is computed.
at::Tensor row_norms(const Matrix& matrix) {
  const at::NoGradGuard no_grad;
  const at::Tensor rows = rows_of(matrix);
  at::Tensor squares = rows.norm(2, {1}, /*keepdim=*/false, at::kFloat).square_();
  if (const auto& lora = matrix.lora; lora && lora->b.defined()) {
    const at::Tensor a = lora->a.to(at::kFloat), b = lora->b.to(at::kFloat);
    const at::Tensor wa = at::mm(rows.to(lora->a.scalar_type()), lora->a.t()).to(at::kFloat);  // [out, r]
    squares += (b * at::mm(b, at::mm(a, a.t())).mul_(lora->scale).add_(wa, 2)).sum(1) * lora->scale;
  }
  if (matrix.lora && matrix.lora->input_group) matrix.lora->input_group->all_reduce(squares).wait();
  return squares.clamp_min_(0).sqrt_();
}

}  // namespace dpo::model
