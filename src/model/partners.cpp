#include "model/partners.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dpo::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using Partners = std::shared_ptr<comm::Group>;

at::Tensor summed(const Partners& partners, const at::Tensor& x) {
  const at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
  partners->all_reduce(sum).wait();
  return sum;
}

struct Enter : torch::autograd::Function<Enter> {
  // The partners, kept by the graph that autograd builds.
  struct Holder : torch::CustomClassHolder {
    explicit Holder(Partners kept) : partners(std::move(kept)) {}
    Partners partners;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Partners& partners) {
    ctx->saved_data["partners"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(partners));
    return x.view_as(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto holder = ctx->saved_data["partners"].toCapsule();
    return {summed(static_cast<const Holder&>(*holder).partners, grads[0]), Variable()};
  }
};

struct Leave : torch::autograd::Function<Leave> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const Partners& partners) {
    return summed(partners, x);
  }

  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0], Variable()}; }
};

// Rows of the vocabulary on each rank; the last one may have fewer.
std::int64_t rows_each(const Partners& partners, std::int64_t vocabulary) {
  return (vocabulary + partners->size() - 1) / partners->size();
}

}  // namespace

at::Tensor enter_divided(const BlockWeights& weights, const at::Tensor& x) {
  return weights.partners ? Enter::apply(x, weights.partners) : x;
}

at::Tensor leave_divided(const BlockWeights& weights, const at::Tensor& x) {
  return weights.partners ? Leave::apply(x, weights.partners) : x;
}

void sum_over_partners(const BlockWeights& weights, const at::Tensor& x) {
  if (weights.partners) weights.partners->all_reduce(x).wait();
}

std::optional<std::int64_t> first_vocabulary_row(const BlockWeights& weights, std::int64_t vocabulary) {
  if (!weights.partners) return std::nullopt;
  return weights.partners->rank() * rows_each(weights.partners, vocabulary);
}

at::Tensor embed_tokens(const BlockWeights& weights, std::string_view name, const at::Tensor& tokens,
                        std::int64_t vocabulary) {
  const at::Tensor& matrix = weights(name);
  const auto first = first_vocabulary_row(weights, vocabulary);
  if (!first) return at::embedding(matrix, tokens);
  const at::Tensor local = tokens - *first;
  const at::Tensor own = local.ge(0).logical_and_(local.lt(matrix.size(0)));
  const at::Tensor rows = at::embedding(matrix, local.clamp(0, matrix.size(0) - 1));
  return leave_divided(weights, rows * own.unsqueeze(1));
}

void combine_log_sums(const BlockWeights& weights, const at::Tensor& lse) {
  if (!weights.partners) return;
  const at::Tensor largest = lse.clone();
  weights.partners->all_reduce(largest, comm::Reduction::max).wait();
  lse.sub_(largest).exp_();
  weights.partners->all_reduce(lse).wait();
  lse.log_().add_(largest);
}

at::Tensor gather_logits(const BlockWeights& weights, const at::Tensor& logits, std::int64_t vocabulary) {
  if (!weights.partners) return logits;
  const std::int64_t ranks = weights.partners->size(), each = rows_each(weights.partners, vocabulary);
  const at::Tensor all = at::zeros({ranks, logits.size(0), each}, logits.options());
  const at::Tensor own = at::zeros({logits.size(0), each}, logits.options());
  own.narrow(1, 0, logits.size(1)).copy_(logits);
  weights.partners->all_gather(all, own).wait();
  return all.transpose(0, 1).reshape({logits.size(0), ranks * each}).narrow(1, 0, vocabulary);
}

}  // namespace dpo::model
