#include "model/tensor_parallel.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dpo::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using TensorGroup = std::shared_ptr<comm::Group>;

at::Tensor all_reduced(const TensorGroup& group, const at::Tensor& x) {
  const at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
  group->all_reduce(sum).wait();
  return sum;
}

struct CopyToTensorParallel : torch::autograd::Function<CopyToTensorParallel> {
  // Keeps the group alive in the autograd graph.
  struct Holder : torch::CustomClassHolder {
    explicit Holder(TensorGroup held) : group(std::move(held)) {}
    TensorGroup group;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const TensorGroup& group) {
    ctx->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(group));
    return x.view_as(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto holder = ctx->saved_data["group"].toCapsule();
    return {all_reduced(static_cast<const Holder&>(*holder).group, grads[0]), Variable()};
  }
};

struct ReduceFromTensorParallel : torch::autograd::Function<ReduceFromTensorParallel> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const TensorGroup& group) {
    return all_reduced(group, x);
  }

  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0], Variable()}; }
};

// Returns the rows of the vocabulary on each rank. The last rank may have fewer.
std::int64_t rows_each(const TensorGroup& group, std::int64_t vocabulary) {
  return (vocabulary + group->size() - 1) / group->size();
}

}  // namespace

at::Tensor copy_to_tensor_parallel(const BlockWeights& weights, const at::Tensor& x) {
  return weights.tensor_group ? CopyToTensorParallel::apply(x, weights.tensor_group) : x;
}

at::Tensor reduce_from_tensor_parallel(const BlockWeights& weights, const at::Tensor& x) {
  return weights.tensor_group ? ReduceFromTensorParallel::apply(x, weights.tensor_group) : x;
}

void all_reduce_over_tensor_group(const BlockWeights& weights, const at::Tensor& x) {
  if (weights.tensor_group) weights.tensor_group->all_reduce(x).wait();
}

std::optional<std::int64_t> first_vocabulary_row(const BlockWeights& weights, std::int64_t vocabulary) {
  if (!weights.tensor_group) return std::nullopt;
  return weights.tensor_group->rank() * rows_each(weights.tensor_group, vocabulary);
}

at::Tensor embed_tokens(const BlockWeights& weights, std::string_view name, const Context& context,
                        std::int64_t vocabulary) {
  const at::Tensor& matrix = weights(name);
  const auto first = first_vocabulary_row(weights, vocabulary);
  if (!first) return ops::select_rows(matrix, context.tokens, context.token_sums, weights.find(name)->sum);
  const at::Tensor local = context.tokens - *first;
  const at::Tensor own = local.ge(0).logical_and_(local.lt(matrix.size(0)));
  const at::Tensor rows = at::embedding(matrix, local.clamp(0, matrix.size(0) - 1));
  return reduce_from_tensor_parallel(weights, rows * own.unsqueeze(1));
}

void combine_lse(const BlockWeights& weights, const at::Tensor& lse) {
  if (!weights.tensor_group) return;
  const at::Tensor largest = lse.clone();
  weights.tensor_group->all_reduce(largest, comm::Reduction::max).wait();
  lse.sub_(largest).exp_();
  weights.tensor_group->all_reduce(lse).wait();
  lse.log_().add_(largest);
}

at::Tensor gather_logits(const BlockWeights& weights, const at::Tensor& logits, std::int64_t vocabulary) {
  if (!weights.tensor_group) return logits;
  const std::int64_t ranks = weights.tensor_group->size(), each = rows_each(weights.tensor_group, vocabulary);
  const at::Tensor all = at::zeros({ranks, logits.size(0), each}, logits.options());
  const at::Tensor own = at::zeros({logits.size(0), each}, logits.options());
  own.narrow(1, 0, logits.size(1)).copy_(logits);
  weights.tensor_group->all_gather(all, own).wait();
  return all.transpose(0, 1).reshape({logits.size(0), ranks * each}).narrow(1, 0, vocabulary);
}

}  // namespace dpo::model
