#include "model/model.h"

#include <cmath>

#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>

namespace dpo::model {
namespace {

const BlockFunctions& functions_of(Family family) {
  switch (family) {
    case Family::gpt2: return kGpt2;
    case Family::gpt_neox: return kGptNeox;
    case Family::gptj: return kGptj;
    default: return kLlama;
  }
}

}  // namespace

double Model::attention_scale() const {
  return config.settings.scaled_attention ? 1 / std::sqrt(static_cast<double>(config.shape.head_dim)) : 1;
}

Model make_model(const ModelConfig& config) {
  return {config, tensor_table(config.shape), functions_of(config.shape.family)};
}

Context make_context(const Model& model, const at::Tensor& tokens, const at::Tensor& positions) {
  Context context{tokens, positions, {}, {}, {}};
  if (const Rotary& rotary = model.config.settings.rotary; rotary.dim > 0) {
    const at::Tensor frequencies = at::tensor(rotary_frequencies(rotary), at::kFloat).to(tokens.device());
    const at::Tensor angles = at::outer(positions.to(at::kFloat), frequencies);
    context.cos = angles.cos();
    context.sin = angles.sin();
  }
  return context;
}

at::Tensor head_matrix(const Model& model, const Weights& weights) {
  const at::Tensor* own = weights.blocks.back().find(model.table.head_name);
  return own ? *own : weights.blocks.front()(model.table.embedding_name);
}

at::Tensor head_bias(const Weights& weights) {
  const at::Tensor* bias = weights.blocks.back().find("lm_head.bias");
  return bias ? *bias : at::Tensor();
}

}  // namespace dpo::model
