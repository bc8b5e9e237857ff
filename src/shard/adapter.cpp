#include "shard/adapter.h"

#include <algorithm>
#include <stdexcept>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "model/init.h"
#include "model/spec/adapter.h"

namespace dpo::shard {
namespace {

constexpr std::string_view kMagnitude = ".lora_magnitude_vector";

// True if a new adapter copies this tensor from the model.
bool is_from_base(const model::TensorInfo& tensor, const model::Block& base) {
  for (const model::TensorInfo& own : base.tensors)
    if (own.name == tensor.name) return true;
  return tensor.name.ends_with(kMagnitude);
}

bool has_any_from_base(const model::Block& adapter, const model::Block& base) {
  for (const model::TensorInfo& tensor : adapter.tensors)
    if (is_from_base(tensor, base)) return true;
  return false;
}

// Returns the stored tensor, which layers may see as a part of another one.
const model::NamedTensor& tensor_of(const model::BlockWeights& weights, const std::string& name) {
  const auto found = std::ranges::find(weights.tensors, name, &model::NamedTensor::name);
  if (found == weights.tensors.end()) throw std::logic_error("no tensor '" + name + "' in this block");
  return *found;
}

// Copies these tensors' values from the block's weights as this tensor-parallel rank has them.
void copy_from_base(model::BlockWeights& whole, const model::Block& adapter, const model::Block& base,
                    const model::BlockWeights& weights) {
  for (std::size_t i = 0; i < adapter.tensors.size(); ++i) {
    if (!is_from_base(adapter.tensors[i], base)) continue;
    const std::string& name = whole.tensors[i].name;
    if (!name.ends_with(kMagnitude)) {
      whole.tensors[i].tensor.copy_(tensor_of(weights, name).tensor);
      continue;
    }
    const model::NamedTensor& own =
        tensor_of(weights, name.substr(0, name.size() - kMagnitude.size()) + ".weight");
    model::Matrix matrix{own.tensor, own.transposed};
    // If ranks split the inputs, norms over inputs are summed over the ranks.
    if (weights.tensor_group && !adapter.tensors[i].split) {
      matrix.lora.emplace();
      matrix.lora->input_group = weights.tensor_group;
    }
    whole.tensors[i].tensor.copy_(model::row_norms(matrix));
  }
}

}  // namespace

LocalModel frozen_base(const model::ModelConfig& config, model::Weights weights,
                       const model::TensorTable& adapter, const Mesh& mesh, config::Reshard reshard) {
  model::Model model = model::make_model(config);
  model.table = model.trained = model::separated(model.table, adapter);
  for (std::size_t i = 0; i < weights.blocks.size(); ++i)
    if (!weights.blocks[i].quantized)
      weights.blocks[i] = model::rank_block(weights.blocks[i].flat, model.table.blocks[i], mesh.layout());
  return {std::move(model), std::move(weights), mesh, reshard};
}

model::Weights new_adapter(const model::TensorTable& table, const LocalModel& base, at::ScalarType dtype,
                           std::uint64_t seed, const Mesh& mesh) {
  const at::NoGradGuard no_grad;
  const model::Layout layout = mesh.layout();
  model::Weights adapter = zeros_like(table, base.weights(), dtype, layout);
  model::initialize(adapter, table, base.model().config, seed, layout);
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const model::Block& own = base.model().table.blocks[i];
    if (!has_any_from_base(table.blocks[i], own)) continue;
    const model::Lease lease(base.store(), i, std::nullopt);
    const std::int64_t shard = model::local_block(table.blocks[i], layout).shard_size;
    const at::Tensor flat = at::zeros({shard * layout.shard_ranks}, adapter.blocks[i].flat.options());
    model::BlockWeights whole = model::block_views(flat, table.blocks[i], layout);
    flat.narrow(0, layout.shard_rank * shard, shard).copy_(adapter.blocks[i].flat);
    copy_from_base(whole, table.blocks[i], own, *lease);
    adapter.blocks[i].flat.copy_(flat.narrow(0, layout.shard_rank * shard, shard));
  }
  base.store().end_pass();
  return adapter;
}

}  // namespace dpo::shard
