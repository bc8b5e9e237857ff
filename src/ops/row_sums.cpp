#include "ops/row_sums.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/fused.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct SelectRows : torch::autograd::Function<SelectRows> {
  // Holds the sum in the autograd graph.
  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<GradientSum> held) : sum(std::move(held)) {}
    std::shared_ptr<GradientSum> sum;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& matrix, const at::Tensor& numbers,
                            const RowSums& sums, const std::shared_ptr<GradientSum>& sum) {
    ctx->save_for_backward({numbers, sums.rows, sums.starts, sums.source_rows});
    ctx->saved_data["rows"] = matrix.size(0);
    ctx->saved_data["sum"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(sum));
    return at::embedding(matrix, numbers);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor gradient = grads[0].contiguous();
    const RowSums sums{saved[1], saved[2], saved[3]};
    const std::int64_t rows = ctx->saved_data["rows"].toInt();
    const auto capsule = ctx->saved_data["sum"].toCapsule();
    const auto& sum = static_cast<const Holder&>(*capsule).sum;
    const bool has_sum = sum && sum->tensor.defined();
    at::Tensor to = has_sum ? sum->to_add_to() : at::zeros({rows, gradient.size(1)}, gradient.options());
    if (fused::supports_row_sums(to, gradient))
      fused::add_row_sums(to, gradient, sums);
    else
      to.add_(at::embedding_dense_backward(gradient, saved[0], rows, /*padding_idx=*/-1,
                                           /*scale_grad_by_freq=*/false));
    return {has_sum ? Variable() : to, Variable(), Variable(), Variable()};
  }
};

}  // namespace

RowSumLists make_row_sums(std::span<const std::int32_t> numbers) {
  const auto index = [](std::int32_t number) { return static_cast<std::size_t>(number); };
  // First counts each number, then stores the position of its next place.
  std::vector<std::int32_t> next(numbers.empty() ? 0 : index(std::ranges::max(numbers)) + 1);
  for (const std::int32_t number : numbers) ++next[index(number)];
  RowSumLists lists{{}, {0}, std::vector<std::int32_t>(numbers.size())};
  for (std::size_t number = 0; number < next.size(); ++number) {
    const std::int32_t count = std::exchange(next[number], lists.starts.back());
    if (count == 0) continue;
    lists.rows.push_back(static_cast<std::int32_t>(number));
    lists.starts.push_back(lists.starts.back() + count);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i)
    lists.source_rows[index(next[index(numbers[i])]++)] = static_cast<std::int32_t>(i);
  return lists;
}

at::Tensor select_rows(const at::Tensor& matrix, const at::Tensor& numbers, const RowSums& sums,
                       const std::shared_ptr<GradientSum>& sum) {
  if (!sums.rows.defined()) return at::embedding(matrix, numbers);
  return SelectRows::apply(matrix, numbers, sums, sum);
}

}  // namespace dpo::ops
