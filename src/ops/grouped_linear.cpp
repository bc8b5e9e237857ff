#include "ops/grouped_linear.h"

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hardware/gpus.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// True if the tensor is on a Hopper GPU.
bool is_hopper(const at::Tensor& tensor) {
  const std::vector<hardware::Gpu>& gpus = hardware::find_gpus().found;
  const auto index = static_cast<std::size_t>(tensor.device().index());
  return index < gpus.size() && gpus[index].capability_major == 9;
}

// LibTorch has one kernel for all groups: in bfloat16 on a GPU, for rows of whole 16 bytes. It was tested on
// Hopper; on Blackwell the gradients of groups without rows are reported to be wrong (pytorch#172439).
bool has_grouped_kernel(const at::Tensor& x, const at::Tensor& weights) {
  constexpr std::int64_t kElements = 8;  // in 16 bytes
  return x.is_cuda() && is_hopper(x) && x.scalar_type() == at::kBFloat16 && weights.is_contiguous() &&
         weights.size(1) % kElements == 0 && weights.size(2) % kElements == 0;
}

// Calls work(group, begin, rows) for every group that has rows.
template <class Work>
void for_each_group(const at::Tensor& ends, const Work& work) {
  const at::Tensor on_host = ends.cpu();
  const std::int32_t* end = on_host.const_data_ptr<std::int32_t>();
  std::int64_t begin = 0;
  for (std::int64_t group = 0; group < on_host.size(0); ++group) {
    const std::int64_t rows = end[group] - begin;
    if (rows > 0) work(group, begin, rows);
    begin += rows;
  }
}

// Runs one matmul per group, for devices and dtypes without LibTorch's grouped kernel.
struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weights,
                            const at::Tensor& ends) {
    ctx->save_for_backward({x, weights, ends});
    at::Tensor out = at::empty({x.size(0), weights.size(1)}, x.options());
    for_each_group(ends, [&](std::int64_t group, std::int64_t begin, std::int64_t rows) {
      at::Tensor to = out.narrow(0, begin, rows);
      at::mm_out(to, x.narrow(0, begin, rows), weights.select(0, group).t());
    });
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weights = saved[1], &ends = saved[2];
    const at::Tensor gradient = grads[0].contiguous();
    at::Tensor of_x, of_weights;
    if (ctx->needs_input_grad(0)) of_x = at::empty_like(x);
    if (ctx->needs_input_grad(1)) of_weights = at::zeros(weights.sizes(), weights.options());
    for_each_group(ends, [&](std::int64_t group, std::int64_t begin, std::int64_t rows) {
      const at::Tensor from = gradient.narrow(0, begin, rows);
      if (of_x.defined()) {
        at::Tensor to = of_x.narrow(0, begin, rows);
        at::mm_out(to, from, weights.select(0, group));
      }
      if (of_weights.defined()) {
        at::Tensor to = of_weights.select(0, group);
        at::mm_out(to, from.t(), x.narrow(0, begin, rows));
      }
    });
    return {of_x, of_weights, Variable()};
  }
};

}  // namespace

at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& ends) {
  if (has_grouped_kernel(x, weights)) return at::_grouped_mm(x, weights.transpose(1, 2), ends);
  return GroupedLinear::apply(x, weights, ends);
}

}  // namespace dpo::ops
