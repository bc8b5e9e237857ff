#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "hardware/gpus.h"
#include "ops/cuda/tensors.h"
#include "ops/cuda/trees.h"
#include "ops/fused_trees.h"

namespace dpo::ops::fused {
namespace {

constexpr std::int64_t kElements = 8;  // bfloat16 elements in 16 bytes

bool has_aligned_rows(const at::Tensor& heads) {
  return heads.scalar_type() == at::kBFloat16 && heads.stride(2) == 1 && heads.stride(0) % kElements == 0 &&
         heads.stride(1) % kElements == 0 &&
         reinterpret_cast<std::uintptr_t>(heads.const_data_ptr()) % 16 == 0;
}

// The kernels use one type for the arrays that they read and the arrays that they write.
cuda::TreeArray array_of(const at::Tensor& heads) {
  return {const_cast<void*>(heads.const_data_ptr()), heads.stride(0), heads.stride(1)};
}

const cuda::TreeTile* tiles_of(const at::Tensor& tiles) {
  return reinterpret_cast<const cuda::TreeTile*>(tiles.const_data_ptr<std::int32_t>());
}

cuda::TreeAttention attention_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttentionOutput& result, const TreeTensors& trees,
                                 const AttentionOptions& options) {
  return {.q = array_of(q),
          .k = array_of(k),
          .v = array_of(v),
          .out = array_of(result.out),
          .lse = const_cast<float*>(result.lse.const_data_ptr<float>()),
          .query_tiles = tiles_of(trees.query_tiles),
          .key_tiles = tiles_of(trees.key_tiles),
          .starts = trees.starts.const_data_ptr<std::int32_t>(),
          .tile_count = trees.query_tiles.numel() * static_cast<std::int64_t>(sizeof(std::int32_t)) /
                        static_cast<std::int64_t>(sizeof(cuda::TreeTile)),
          .tokens = q.size(0),
          .heads = q.size(1),
          .kv_heads = k.size(1),
          .head_dim = q.size(2),
          .scale = static_cast<float>(options.scale)};
}

// True if all three are parts of one matrix whose rows are as long as a token's stride.
bool share_a_matrix(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return q.is_alias_of(k) && q.is_alias_of(v) && q.stride(0) == k.stride(0) && q.stride(0) == v.stride(0) &&
         q.numel() + k.numel() + v.numel() == q.size(0) * q.stride(0);
}

AttentionGradients empty_gradients(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (!share_a_matrix(q, k, v)) {
    const auto dense = [](const at::Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); };
    return {dense(q), dense(k), dense(v)};
  }
  const at::Tensor matrix = at::empty({q.size(0), q.stride(0)}, q.options());
  const std::int64_t first = std::min({q.storage_offset(), k.storage_offset(), v.storage_offset()});
  const auto part = [&](const at::Tensor& like) {
    return matrix.as_strided(like.sizes(), like.strides(), like.storage_offset() - first);
  };
  return {part(q), part(k), part(v)};
}

}  // namespace

bool has_tree_kernels(at::Device device) {
  if (!device.is_cuda()) return false;
  const std::vector<hardware::Gpu>& gpus = hardware::find_gpus().found;
  const auto index =
      static_cast<std::size_t>(device.has_index() ? device.index() : c10::cuda::current_device());
  return index < gpus.size() && gpus[index].at_least(8, 0) && cuda::has_tree_code();
}

bool suits_long_sequences(const at::Tensor& q) {
  if (!has_tree_kernels(q.device())) return false;
  const cuda::Launch on_its_device(q);
  return cuda::attends_in_groups(q.size(2));
}

bool supports_trees(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TreeTensors& trees,
                    const AttentionOptions& options) {
  return has_tree_kernels(q.device()) && trees.query_tiles.defined() && cuda::attends_trees(q.size(2)) &&
         has_aligned_rows(q) && has_aligned_rows(k) && has_aligned_rows(v) && options.soft_cap == 0 &&
         options.window == 0 && options.scale > 0;
}

AttentionOutput attend_trees(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const TreeTensors& trees, const AttentionOptions& options) {
  AttentionOutput result{at::empty(q.sizes(), q.options()),
                         at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat))};
  cuda::attend_trees(attention_of(q, k, v, result, trees, options), cuda::Launch(q));
  return result;
}

bool supports_trees_backward(const at::Tensor& grad_out, const AttentionOutput& total) {
  return has_aligned_rows(grad_out) && has_aligned_rows(total.out);
}

AttentionGradients attend_trees_backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const AttentionOutput& total,
                                         const TreeTensors& trees, const AttentionOptions& options) {
  AttentionGradients result = empty_gradients(q, k, v);
  const at::Tensor delta = at::empty_like(total.lse);
  cuda::attend_trees_backward(attention_of(q, k, v, total, trees, options),
                              {.out = array_of(grad_out),
                               .q = array_of(result.q),
                               .k = array_of(result.k),
                               .v = array_of(result.v),
                               .delta = delta.mutable_data_ptr<float>()},
                              cuda::Launch(q));
  return result;
}

}  // namespace dpo::ops::fused
