#include "model/pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/autograd.h>

namespace dpo::model {
namespace {

Context forest_context(const Model& model, const Batch& batch) {
  Context context = make_context(model, batch.tokens, batch.positions);
  context.attend = [layout = batch.layout, scale = model.attention_scale()](
                       const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return ops::forest_attention(q, k, v, layout, scale);
  };
  return context;
}

// Block i of a pass: the embedding, a layer, or the norm of the rows that the head reads.
at::Tensor compute_block(const Model& model, std::size_t i, const BlockWeights& weights, const at::Tensor& x,
                         const Context& context, const at::Tensor& rows) {
  switch (model.table.blocks[i].kind) {
    case BlockKind::embedding: return model.functions.embed(model.config, weights, context);
    case BlockKind::layer: return model.functions.layer(model.config, weights, x, context);
    case BlockKind::head: break;
  }
  // A look-up like that of tokens: unlike index_select, its gradients are added in a fixed order on a GPU.
  return model.functions.final_norm(model.config, weights, at::embedding(x, rows));
}

ops::HeadInput head_input(const Model& model, const Weights& weights, const Batch& batch,
                          const at::Tensor& hidden, const PassOptions& options) {
  return {hidden,           head_matrix(model, weights), head_bias(weights), batch.targets,
          batch.row_starts, options.chunk_rows,          batch.row_weights};
}

BlockWeights leaves_of(const BlockWeights& weights) {
  BlockWeights leaves;
  for (const NamedTensor& named : weights.tensors)
    leaves.tensors.push_back({named.name, named.tensor.detach().requires_grad_()});
  return leaves;
}

// Adds what autograd finds behind the block's output to `gradients`; returns the gradient of its input.
at::Tensor backward_through(const BlockRecord& record, const at::Tensor& output_gradient,
                            BlockWeights& gradients) {
  std::vector<at::Tensor> inputs;
  for (const NamedTensor& named : record.weights.tensors) inputs.push_back(named.tensor);
  if (record.input.defined()) inputs.push_back(record.input);
  const auto found = torch::autograd::grad({record.output}, inputs, {output_gradient}, /*retain_graph=*/false,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < gradients.tensors.size(); ++i)
    if (found[i].defined()) gradients.tensors[i].tensor.add_(found[i]);
  return record.input.defined() ? found.back() : at::Tensor();
}

}  // namespace

ops::ResponseScores forward(const Model& model, const Weights& weights, const Batch& batch,
                            const PassOptions& options) {
  const at::NoGradGuard no_grad;
  const Context context = forest_context(model, batch);
  at::Tensor x;
  for (std::size_t i = 0; i < weights.blocks.size(); ++i)
    x = compute_block(model, i, weights.blocks[i], x, context, batch.rows);
  return score_responses(head_input(model, weights, batch, x, options), options.entropy);
}

ops::ResponseScores forward(const Model& model, const Weights& weights, const Batch& batch,
                            const PassOptions& options, Tape& tape) {
  const Context context = forest_context(model, batch);
  at::Tensor x;
  for (std::size_t i = 0; i < weights.blocks.size(); ++i) {
    const bool keep = !options.recompute || model.table.blocks[i].kind != BlockKind::layer;
    const at::AutoGradMode grad(keep);
    BlockRecord record{leaves_of(weights.blocks[i]), x.defined() ? x.detach().requires_grad_() : x, {}};
    const at::Tensor output = compute_block(model, i, record.weights, record.input, context, batch.rows);
    if (keep) record.output = output;
    x = output.detach();
    tape.blocks.push_back(std::move(record));
  }
  const at::NoGradGuard no_grad;
  ops::ResponseScores scores =
      score_responses(head_input(model, weights, batch, x, options), options.entropy);
  tape.lse = scores.lse;
  return scores;
}

void backward(const Model& model, const Weights& weights, const Batch& batch, const PassOptions& options,
              Tape& tape, const at::Tensor& by_response, Weights& gradients) {
  const at::Tensor hidden = tape.blocks.back().output.detach();
  at::Tensor gradient;
  {
    const at::NoGradGuard no_grad;
    gradient = score_responses_backward(head_input(model, weights, batch, hidden, options), tape.lse,
                                        by_response, head_matrix(model, gradients), head_bias(gradients));
  }
  const Context context = options.recompute ? forest_context(model, batch) : Context{};
  for (std::size_t i = tape.blocks.size(); i-- > 0;) {
    BlockRecord record = std::move(tape.blocks[i]);
    tape.blocks.pop_back();
    if (!record.output.defined())
      record.output = compute_block(model, i, record.weights, record.input, context, batch.rows);
    gradient = backward_through(record, gradient, gradients.blocks[i]);
  }
}

at::Tensor all_logits(const Model& model, const Weights& weights, const Batch& batch) {
  const at::NoGradGuard no_grad;
  const Context context = forest_context(model, batch);
  at::Tensor x;
  for (std::size_t i = 0; i + 1 < weights.blocks.size(); ++i)
    x = compute_block(model, i, weights.blocks[i], x, context, {});
  const at::Tensor bias = head_bias(weights);
  return at::linear(model.functions.final_norm(model.config, weights.blocks.back(), x),
                    head_matrix(model, weights), bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace dpo::model
