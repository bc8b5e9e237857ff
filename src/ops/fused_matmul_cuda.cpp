#include "ops/fused_matmul.h"

#include <optional>

#include <ATen/ops/empty.h>

#include "ops/cuda/matmuls.h"
#include "ops/cuda/tensors.h"

namespace dpo::ops::fused {
namespace {

std::optional<cuda::Operand> operand_of(const at::Tensor& matrix) {
  if (matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1))
    return cuda::Operand{matrix.const_data_ptr(), matrix.stride(0), false};
  if (matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0))
    return cuda::Operand{matrix.const_data_ptr(), matrix.stride(1), true};
  return std::nullopt;
}

// Wrong or unusual tensors are left to LibTorch.
bool fits(const at::Tensor& tensor, at::IntArrayRef sizes, const at::Tensor& a) {
  return tensor.sizes() == sizes && tensor.device() == a.device() && tensor.is_contiguous();
}

bool fits(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  return a.size(1) == b.size(0) && b.device() == a.device() && fits(out, {a.size(0), b.size(1)}, a) &&
         (!bias.defined() || (fits(bias, {b.size(1)}, a) && bias.scalar_type() == a.scalar_type()));
}

}  // namespace

bool supports_matmul(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cuda() && a.dim() == 2 && b.dim() == 2 && a.element_size() == 2 && cuda::type_of(a) &&
         a.scalar_type() == b.scalar_type();
}

bool matmul(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
            const std::function<void()>& usual) {
  const auto left = operand_of(a), right = operand_of(b);
  const auto out_type = cuda::type_of(out);
  if (!left || !right || !out_type || !fits(out, a, b, bias)) return false;
  const cuda::Matmul call{.type = *cuda::type_of(a),
                          .out_type = *out_type,
                          .rows = a.size(0),
                          .columns = b.size(1),
                          .inner = a.size(1),
                          .a = *left,
                          .b = *right,
                          .bias = bias.defined() ? bias.const_data_ptr() : nullptr,
                          .out = out.mutable_data_ptr()};
  const cuda::Launch launch(a);
  const cuda::Choice choice = cuda::choice_for(call);
  if (choice == cuda::Choice::none) return false;
  const at::Tensor workspace = at::empty({cuda::kMatmulWorkspace}, a.options().dtype(at::kByte));
  if (choice == cuda::Choice::due) cuda::choose_algorithm(call, usual, workspace.mutable_data_ptr(), launch);
  return cuda::multiply(call, workspace.mutable_data_ptr(), launch);
}

}  // namespace dpo::ops::fused
