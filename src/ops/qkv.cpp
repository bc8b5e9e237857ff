#include "ops/qkv.h"

#include <optional>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/rotary.h"

namespace dpo::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Uses split(), because its gradients are concatenated. The gradient of each narrow() would fill a whole
// matrix.
Heads views_of(const at::Tensor& qkv, const QkvLayout& layout) {
  const auto [heads, kv_heads, head_dim, by_head] = layout;
  const std::vector<at::Tensor> parts = by_head
                                            ? qkv.unflatten(-1, {heads, 3 * head_dim}).chunk(3, -1)
                                            : qkv.unflatten(-1, {heads + 2 * kv_heads, head_dim})
                                                  .split_with_sizes({heads, kv_heads, kv_heads}, /*dim=*/1);
  return {parts[0], parts[1], parts[2]};
}

// Returns the matrix whose parts these gradients are, as attention over trees computes them. Undefined if
// there is none.
at::Tensor matrix_of(const variable_list& grads, at::IntArrayRef sizes, const QkvLayout& layout) {
  for (const at::Tensor& grad : grads)
    if (!grad.defined() || !grad.is_alias_of(grads[0])) return {};
  if (grads[0].storage().nbytes() !=
      static_cast<std::size_t>(c10::multiply_integers(sizes)) * grads[0].itemsize())
    return {};
  const at::Tensor matrix = grads[0].as_strided(sizes, {sizes[1], 1}, 0);
  const Heads parts = views_of(matrix, layout);
  const auto is_same = [](const at::Tensor& a, const at::Tensor& b) {
    return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides();
  };
  return is_same(parts.q, grads[0]) && is_same(parts.k, grads[1]) && is_same(parts.v, grads[2])
             ? matrix
             : at::Tensor();
}

struct RotatedHeads : torch::autograd::Function<RotatedHeads> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& qkv, const QkvLayout& layout,
                               const RotaryAngles& angles) {
    const Heads heads = views_of(qkv.detach(), layout);
    if (angles.cos.defined()) fused::rotate_heads(heads, angles);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({angles.cos, angles.sin});
    ctx->saved_data["interleaved"] = angles.interleaved;
    ctx->saved_data["layout"] = std::vector<std::int64_t>{layout.heads, layout.kv_heads, layout.head_dim,
                                                          static_cast<std::int64_t>(layout.by_head)};
    ctx->saved_data["sizes"] = qkv.sizes().vec();
    return {heads.q, heads.k, heads.v};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto numbers = ctx->saved_data["layout"].toIntVector();
    const QkvLayout layout{numbers[0], numbers[1], numbers[2], numbers[3] != 0};
    const RotaryAngles angles{saved[0], saved[1], ctx->saved_data["interleaved"].toBool()};
    const std::vector<std::int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    if (const at::Tensor matrix = matrix_of(grads, sizes, layout); matrix.defined()) {
      const Heads parts = views_of(matrix, layout);
      if (angles.cos.defined()) fused::rotate_heads_back(parts, angles, parts);
      return {matrix, Variable(), Variable()};
    }
    const at::Tensor& like = grads[0].defined() ? grads[0] : grads[1].defined() ? grads[1] : grads[2];
    const at::Tensor grad = at::empty(sizes, like.options());
    const Heads to = views_of(grad, layout);
    const auto dense = [](const at::Tensor& of, const at::Tensor& target) {
      if (!of.defined()) return at::zeros(target.sizes(), target.options());
      return of.stride(2) == 1 ? of : of.contiguous();
    };
    fused::rotate_heads_back({dense(grads[0], to.q), dense(grads[1], to.k), dense(grads[2], to.v)}, angles,
                             to);
    return {grad, Variable(), Variable()};
  }
};

}  // namespace

Heads rotated_heads(const at::Tensor& qkv, const QkvLayout& layout, const RotaryAngles& angles) {
  if (qkv.is_cuda() && qkv.is_contiguous() &&
      fused::supports_rotation(views_of(qkv.detach(), layout), angles)) {
    const variable_list heads = RotatedHeads::apply(qkv, layout, angles);
    return {heads[0], heads[1], heads[2]};
  }
  Heads heads = views_of(qkv, layout);
  if (angles.cos.defined()) {
    heads.q = apply_rotary(heads.q, angles.cos, angles.sin, angles.interleaved);
    heads.k = apply_rotary(heads.k, angles.cos, angles.sin, angles.interleaved);
    heads.v = heads.v.contiguous();  // a view would keep all of `qkv` in memory
  }
  return heads;
}

}  // namespace dpo::ops
