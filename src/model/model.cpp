#include "model/model.h"

#include <cmath>

#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>

namespace dpo::model {
namespace {

const BlockFunctions& functions_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::gpt2: return kGpt2;
    case LayerKind::gpt_neox: return kGptNeox;
    case LayerKind::gptj: return kGptj;
    case LayerKind::llama: break;
  }
  return kLlama;
}

}  // namespace

double Model::attention_scale() const {
  return config.settings.scaled_attention ? 1 / std::sqrt(static_cast<double>(config.shape.head_dim)) : 1;
}

Model make_model(const ModelConfig& config) {
  const TensorTable table = tensor_table(config.shape);
  return {config, table, /*trained=*/table, functions_of(config.shape.layer_kind())};
}

Context make_context(const Model& model, const at::Tensor& tokens, const at::Tensor& positions,
                     Attention attention) {
  Context context{tokens, positions, {}, {}, 0, std::move(attention)};
  if (const Rotary& rotary = model.config.settings.rotary; rotary.dim > 0) {
    const at::Tensor frequencies = at::tensor(rotary_frequencies(rotary), at::kFloat).to(tokens.device());
    const at::Tensor angles = at::outer(positions.to(at::kFloat), frequencies);
    context.cos = angles.cos();
    context.sin = angles.sin();
  }
  return context;
}

std::size_t head_matrix_block(const Model& model) {
  for (const TensorInfo& tensor : model.table.blocks.back().tensors)
    if (tensor.name == model.table.head_name) return model.table.blocks.size() - 1;
  return 0;
}

at::Tensor head_matrix(const Model& model, const BlockWeights& block) {
  for (const std::string& name : {model.table.head_name, model.table.embedding_name})
    if (const NamedTensor* named = block.find(name)) return named->tensor;
  return {};
}

HeadMatrix::HeadMatrix(const Model& model, Store& store, const BlockWeights& head,
                       std::optional<std::size_t> next) {
  const std::size_t block = head_matrix_block(model);
  const bool is_tied = block + 1 != store.blocks();
  if (is_tied) lease_.emplace(store, block, next);
  matrix_ = {head_matrix(model, is_tied ? **lease_ : head).to(head.flat.device())};
}

at::Tensor head_bias(const BlockWeights& head) { return head.bias("lm_head"); }

}  // namespace dpo::model
