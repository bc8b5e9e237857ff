#include "model/pass.h"

#include <algorithm>
#include <deque>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/splitmix64.h"
#include "model/spec/recompute.h"
#include "model/vocabulary_head.h"

namespace dpo::model {
namespace {

Attention forest_attention_of(const Model& model, std::shared_ptr<const ops::ForestLayout> layout) {
  return [layout = std::move(layout), &model](std::size_t layer, const at::Tensor& q, const at::Tensor& k,
                                              const at::Tensor& v) {
    return ops::forest_attention(q, k, v, layout, model.attention_options(layer));
  };
}

struct DeviceBatch {
  Batch batch;
  Context context;
  bool last_layer_selects = false;  // it computes only the rows that the head reads
};

// Holds the batch and its context on every device of a pass.
class DeviceBatches {
 public:
  // Makes the batch of a pass over a forest. Its last layer selects the head's rows, except with experts,
  // because a router's balance loss counts all tokens.
  DeviceBatches(const Model& model, const Batch& batch)
      : model_(model), batch_(batch), last_layer_selects_(model.config.shape.experts == 0) {}

  // Makes the batch of a pass whose layers compute all tokens, with `attention` if it is set.
  DeviceBatches(const Model& model, const Batch& batch, const Attention& attention)
      : model_(model), batch_(batch), attention_(attention) {}

  bool is_empty() const { return batch_.tokens.size(0) == 0; }

  DeviceBatch& on(at::Device device) {
    for (DeviceBatch& made : made_)
      if (made.batch.tokens.device() == device) return made;
    Batch batch = to_device(batch_, device);
    Context context = make_context(model_, batch.tokens, batch.positions, batch.lengths,
                                   attention_ ? attention_ : forest_attention_of(model_, batch.layout));
    context.token_sums = batch.token_sums;
    context.row_sums = batch.row_sums;
    return made_.emplace_back(std::move(batch), std::move(context), last_layer_selects_);
  }

 private:
  const Model& model_;
  const Batch& batch_;
  Attention attention_;
  bool last_layer_selects_ = false;
  std::deque<DeviceBatch> made_;  // a deque, since references must stay valid
};

// True if a block selects the rows that the head reads. The blocks before it compute all tokens.
bool selects_rows(const Model& model, const Block& block, const DeviceBatch& here) {
  if (!here.last_layer_selects) return block.kind == BlockKind::head;
  return block.kind == BlockKind::layer &&
         static_cast<std::int64_t>(block.layer) + 1 == model.config.shape.layers;
}

// Computes block i of a pass: the embedding, a layer, or the norm of the rows that the head reads.
at::Tensor compute_block(const Model& model, std::size_t i, const BlockWeights& weights, const at::Tensor& x,
                         DeviceBatch& here, const OnRouting& on_routing = {}) {
  const Block& block = model.table.blocks[i];
  Context& context = here.context;
  context.on_routing = on_routing;
  context.layer = block.layer;
  context.rows = selects_rows(model, block, here) ? here.batch.rows : at::Tensor();
  switch (block.kind) {
    case BlockKind::embedding: return model.functions.embed(model.config, weights, context);
    case BlockKind::layer: return model.functions.layer(model.config, weights, x, context);
    case BlockKind::head: break;
  }
  return model.functions.final_norm(model.config, weights, context.needed(x));
}

at::Tensor to_device(const at::Tensor& x, at::Device device) { return x.defined() ? x.to(device) : x; }

// Returns a block's dropout. Each block has a different seed, and so different masks.
Dropout dropout_of(const PassOptions& options, std::size_t block) {
  return {options.dropout.rate, splitmix64(options.dropout.seed + block)};
}

// Sets the options with which a pass computes block i.
void set_options(BlockWeights& weights, const Model& model, const PassOptions& options, std::size_t i) {
  weights.dropout = dropout_of(options, i);
  weights.fp8 = options.fp8 && model.table.blocks[i].kind == BlockKind::layer;
}

BlockWeights leaves_of(const BlockWeights& weights, const Model& model, const PassOptions& options,
                       std::size_t i) {
  const Block& trained = model.trained.blocks[i];
  const auto is_trained = [&trained](const std::string& name) {
    return std::ranges::any_of(trained.tensors, [&, full = trained.prefix + name](const TensorInfo& tensor) {
      return tensor.name == full || tensor.stack == name;
    });
  };
  BlockWeights leaves{weights.flat, {}, weights.operands, weights.tensor_group};
  set_options(leaves, model, options, i);
  for (NamedTensor& named : leaves.operands) {
    named.tensor = named.tensor.detach().requires_grad_(is_trained(named.name));
    if (named.tensor.requires_grad()) named.sum = std::make_shared<ops::GradientSum>();
  }
  return leaves;
}

bool recomputes(const Model& model, const PassOptions& options, std::size_t block) {
  return is_recomputed(model.table.blocks[block], options.recomputed_layers, model.config.shape.layers);
}

// Returns the tensors that a block has gradients of: its trained tensors, then its input if an earlier block
// is trained.
std::vector<at::Tensor> leaves_in(const SavedBlock& saved) {
  std::vector<at::Tensor> leaves;
  for (const NamedTensor& named : saved.weights.operands)
    if (named.tensor.requires_grad()) leaves.push_back(named.tensor);
  if (saved.input.defined() && saved.input.requires_grad()) leaves.push_back(saved.input);
  return leaves;
}

// Backpropagates through one block. Adds to `gradients`, and returns the gradient of the block's input,
// undefined if it has none. `routed_gradient` is the gradient of the router's output, if the block has saved
// that. If the gradient store's buffer is not ready, it is asked for last, since that may wait until the
// previous block's reduce-scatter is done.
at::Tensor backward_through(const SavedBlock& saved, std::size_t block, const at::Tensor& output_gradient,
                            const at::Tensor& routed_gradient, GradientStore& gradients) {
  std::vector<at::Tensor> outputs = {saved.output}, output_gradients = {output_gradient};
  if (saved.routed.defined()) {
    outputs.push_back(saved.routed);
    output_gradients.push_back(routed_gradient);
  }
  std::vector<ops::GradientSum*> leaf_sums;
  for (const NamedTensor& named : saved.weights.operands)
    if (named.tensor.requires_grad()) leaf_sums.push_back(named.sum.get());
  const auto connect = [&] {
    const BlockWeights& sums = gradients.gradients(block);
    for (std::size_t i = 0; i < leaf_sums.size(); ++i) *leaf_sums[i] = sum_of(&sums.operands[i]);
  };
  if (gradients.is_ready()) connect();  // weight gradients are added as soon as they are computed
  const std::vector<at::Tensor> inputs = leaves_in(saved);
  std::vector<at::Tensor> found;
  if (!inputs.empty())
    found = torch::autograd::grad(outputs, inputs, output_gradients, /*retain_graph=*/false,
                                  /*create_graph=*/false, /*allow_unused=*/true);
  if (!gradients.is_ready()) connect();
  ops::GradientSum::add_each(leaf_sums, found);
  return found.size() > leaf_sums.size() ? found.back() : at::Tensor();
}

// Computes the blocks of a pass in order, each with compute(i, weights, x, here) from the output x of the one
// before. at_head(weights, rows) gets the output of the head's block while that block's weights are in use.
// An empty batch computes nothing, but also asks for all weights; its rows are undefined.
template <class Compute, class AtHead>
void run_blocks(const Model& model, Store& store, DeviceBatches& batches, const Head& head,
                const Compute& compute, const AtHead& at_head) {
  at::Tensor x;
  for (std::size_t i = 0; i < store.blocks(); ++i) {
    const at::Device device = store.device(i);
    const bool is_head = model.table.blocks[i].kind == BlockKind::head;
    const auto next = i + 1 < store.blocks() ? std::optional(i + 1) : std::nullopt;
    const Lease lease(store, i, is_head ? head.other_block() : next);
    if (!batches.is_empty()) x = compute(i, *lease, to_device(x, device), batches.on(device));
    const at::NoGradGuard no_grad;
    if (is_head) at_head(*lease, x);
  }
}

std::unique_ptr<Head> make_head(const Model& model, Store& store, const PassOptions& options,
                                bool keep_last_logits,
                                const std::optional<ConstantLossGradients>& constant = {}) {
  return std::make_unique<VocabularyHead>(
      model, store, VocabularyHeadOptions{{options.entropy, keep_last_logits}, options.chunk_rows, constant});
}

// Runs the blocks, then computes the head's scores.
template <class Compute>
ops::ResponseScores pass_forward(const Model& model, Store& store, const Batch& batch, Head& head,
                                 const Compute& compute) {
  DeviceBatches batches(model, batch);
  ops::ResponseScores scores;
  run_blocks(model, store, batches, head, compute, [&](const BlockWeights& weights, const at::Tensor& rows) {
    scores = head.forward(weights, rows, rows.defined() ? batches.on(rows.device()).batch : batch);
  });
  return scores;
}

at::Tensor head_backward(Store& store, std::size_t block, Head& head, const at::Tensor& grad_scores,
                         GradientStore& gradients) {
  const at::NoGradGuard no_grad;
  const Lease lease(store, block, head.other_block());
  return head.backward(*lease, grad_scores, gradients);
}

}  // namespace

ops::ResponseScores forward(const Model& model, Store& store, const Batch& batch,
                            const PassOptions& options) {
  const at::NoGradGuard no_grad;
  const auto compute = [&](std::size_t i, const BlockWeights& weights, const at::Tensor& x,
                           DeviceBatch& here) {
    if (options.dropout.rate == 0 && !options.fp8) return compute_block(model, i, weights, x, here);
    BlockWeights with_options = weights;
    set_options(with_options, model, options, i);
    return compute_block(model, i, with_options, x, here);
  };
  const std::unique_ptr<Head> head = make_head(model, store, options, /*keep_last_logits=*/false);
  ops::ResponseScores scores = pass_forward(model, store, batch, *head, compute);
  store.end_pass();
  return scores;
}

ops::ResponseScores forward(const Model& model, Store& store, const Batch& batch, const PassOptions& options,
                            SavedActivations& saved, const std::optional<ConstantLossGradients>& constant) {
  const bool balanced = options.router_aux_loss_coef > 0;
  bool trains = false;  // true once a block has trained tensors
  const auto compute = [&](std::size_t i, const BlockWeights& weights, const at::Tensor& x,
                           DeviceBatch& here) {
    const bool keep = !recomputes(model, options, i);
    const at::AutoGradMode grad(keep);
    SavedBlock block{
        leaves_of(weights, model, options, i), x.defined() ? x.detach().requires_grad_(trains) : x, {}};
    trains = trains || !model.trained.blocks[i].tensors.empty();
    const auto on_routing = [&](const at::Tensor& probabilities, const at::Tensor& experts) {
      saved.balance.add(probabilities, experts);
      if (keep) block.routed = probabilities.sum(0);
    };
    const at::Tensor output = compute_block(model, i, block.weights, block.input, here,
                                            balanced ? OnRouting(on_routing) : OnRouting());
    if (keep) block.output = output;
    saved.blocks.push_back(std::move(block));
    return output.detach();
  };
  saved.head = make_head(model, store, options, /*keep_last_logits=*/true, constant);
  return pass_forward(model, store, batch, *saved.head, compute);
}

void backward(const Model& model, Store& store, const Batch& batch, const PassOptions& options,
              SavedActivations& saved, const at::Tensor& grad_log_probs, GradientStore& gradients) {
  at::Tensor gradient, routed_gradient = saved.balance.gradient();
  if (routed_gradient.defined()) routed_gradient = routed_gradient * options.router_aux_loss_coef;
  DeviceBatches batches(model, batch);
  for (std::size_t i = store.blocks(); i-- > 0;) {
    if (model.table.blocks[i].kind == BlockKind::head)
      gradient = head_backward(store, i, *std::exchange(saved.head, nullptr), grad_log_probs, gradients);
    const Lease lease(store, i, i > 0 ? std::optional(i - 1) : std::nullopt);
    if (batches.is_empty()) {
      gradients.gradients(i);  // zeros: this rank takes part in the reduction
    } else {
      SavedBlock block = std::move(saved.blocks[i]);
      saved.blocks.pop_back();
      const at::Device device = store.device(i);
      const auto on_routing = [&block](const at::Tensor& probabilities, const at::Tensor&) {
        block.routed = probabilities.sum(0);
      };
      if (!block.output.defined() && !leaves_in(block).empty())
        block.output = compute_block(model, i, block.weights, block.input, batches.on(device),
                                     routed_gradient.defined() ? OnRouting(on_routing) : OnRouting());
      gradient = backward_through(block, i, to_device(gradient, device), to_device(routed_gradient, device),
                                  gradients);
    }
    gradients.complete(i);
  }
  store.end_pass();
}

at::Tensor logits_of(const Model& model, Store& store, const Batch& batch, const Attention& attention) {
  const at::NoGradGuard no_grad;
  DeviceBatches batches(model, batch, attention);
  const VocabularyHead head(model, store, {});
  at::Tensor logits;
  run_blocks(
      model, store, batches, head,
      [&](std::size_t i, const BlockWeights& weights, const at::Tensor& x, DeviceBatch& here) {
        return compute_block(model, i, weights, x, here);
      },
      [&](const BlockWeights& weights, const at::Tensor& rows) { logits = head.logits(weights, rows); });
  return logits;
}

at::Tensor all_logits(const Model& model, Store& store, const Batch& batch) {
  Batch all = batch;
  all.rows = at::Tensor();
  return logits_of(model, store, all);
}

ops::ResponseScores forward(const Model& model, const Weights& weights, const Batch& batch,
                            const PassOptions& options) {
  ResidentStore store(weights);
  return forward(model, store, batch, options);
}

at::Tensor all_logits(const Model& model, const Weights& weights, const Batch& batch) {
  ResidentStore store(weights);
  return all_logits(model, store, batch);
}

}  // namespace dpo::model
