#include "model/model.h"

#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "model/spec/adapter.h"
#include "ops/upload.h"

namespace dpo::model {
namespace {

const BlockFunctions& functions_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::gpt2: return kGpt2;
    case LayerKind::gpt_neox: return kGptNeox;
    case LayerKind::gptj: return kGptj;
    case LayerKind::gemma: return kGemma;
    case LayerKind::olmo2: return kOlmo2;
    case LayerKind::cohere: return kCohere;
    case LayerKind::mixture: return kMixture;
    case LayerKind::llama: break;
  }
  return kLlama;
}

at::Tensor angles_of(const at::Tensor& positions, const std::vector<float>& frequencies) {
  return at::outer(positions.to(at::kFloat),
                   ops::upload(at::tensor(frequencies, at::kFloat), positions.device()));
}

Angles make_angles(const Rotary& rotary, const at::Tensor& positions, const at::Tensor& lengths) {
  if (rotary.dim == 0) return {};
  at::Tensor angles = angles_of(positions, rotary_frequencies(rotary));
  if (rotary.scaling == Rotary::Scaling::longrope)
    angles = at::where(lengths.gt(rotary.original_context).unsqueeze(1),
                       angles_of(positions, rotary_frequencies(rotary, /*is_long=*/true)), angles);
  return {angles.cos().mul_(rotary.attention_factor), angles.sin().mul_(rotary.attention_factor)};
}

}  // namespace

at::Tensor Context::needed(const at::Tensor& x) const {
  return rows.defined() ? ops::select_rows(x, rows, row_sums) : x;
}

at::Tensor Context::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
  const at::Tensor out = attention(layer, q, k, v);
  return rows.defined() ? needed(out.flatten(1)).unflatten(1, {q.size(1), q.size(2)}) : out;
}

ops::AttentionOptions Model::attention_options(std::size_t layer) const {
  const Settings& settings = config.settings;
  const double divisor = settings.inverse_layer_scale ? static_cast<double>(layer + 1) : 1;
  return {settings.attention_scale / divisor, settings.attention_cap,
          config.is_windowed(layer) ? config.shape.window : 0};
}

Model make_model(const ModelConfig& config) {
  const TensorTable table = tensor_table(config.shape);
  return {config, table, /*trained=*/table, functions_of(config.shape.layer_kind())};
}

Model make_model(const ModelConfig& config, TensorTable adapter) {
  TensorTable table = separated(tensor_table(config.shape), adapter);
  return {config, std::move(table), std::move(adapter), functions_of(config.shape.layer_kind())};
}

Context make_context(const Model& model, const at::Tensor& tokens, const at::Tensor& positions,
                     const at::Tensor& lengths, Attention attention) {
  const Settings& settings = model.config.settings;
  Context context{tokens, positions, make_angles(settings.rotary, positions, lengths),
                  {},     0,         std::move(attention)};
  if (settings.window_rotary)
    context.window_angles = make_angles(*settings.window_rotary, positions, lengths);
  return context;
}

}  // namespace dpo::model
