// Implements Mixtral, Qwen3 MoE and OLMoE: Llama's layers with several MLPs, the experts. A router sends each
// token to some of them, independently of other tokens: trees change nothing, and no token is dropped.
#include <optional>

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>

#include "model/layer_parts.h"
#include "model/tensor_parallel.h"
#include "ops/grouped_linear.h"

namespace dpo::model {
namespace mixture {

// The experts chosen for every token, [tokens, experts_per_token].
struct Routing {
  at::Tensor experts;  // int64
  at::Tensor weights;  // factors of their outputs
};

// Chooses the experts of each token. Mixtral's softmax over the chosen experts equals the softmax over all,
// scaled so that the chosen ones add up to 1.
Routing route(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x, const Context& context) {
  const bool mixtral = config.shape.family == Family::mixtral;
  const at::Tensor logits = linear(w, mixtral ? "block_sparse_moe.gate" : "mlp.gate", x);
  const at::Tensor probabilities = at::softmax(logits, -1, at::kFloat);
  auto [weights, experts] = at::topk(probabilities, config.shape.experts_per_token);
  if (context.on_routing) context.on_routing(probabilities, experts);
  if (config.settings.norm_topk_prob) weights = weights / weights.sum(-1, /*keepdim=*/true);
  return {experts, weights.to(x.scalar_type())};
}

// The input rows of a layer's experts: each token once for each of its experts, sorted by expert.
struct Rows {
  at::Tensor tokens;  // token of every row, int64
  at::Tensor ends;    // end of every expert's rows, int32 [experts]
  at::Tensor places;  // index of each token's rows, token by token, int64
};

Rows sort_by_expert(const at::Tensor& experts, std::int64_t count) {
  const auto [sorted, order] = at::sort(experts.flatten(), /*stable=*/std::optional(true), /*dim=*/0);
  const at::Tensor numbers = at::arange(count, sorted.options());
  const at::Tensor ends = at::searchsorted(sorted, numbers, /*out_int32=*/true, /*right=*/true);
  const at::Tensor places =
      at::empty_like(order).scatter_(0, order, at::arange(order.size(0), order.options()));
  return {order.floor_divide(experts.size(1)), ends, places};
}

// Computes the weighted sum of the outputs of each token's experts.
at::Tensor mlp(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
               const Routing& routing) {
  const Rows rows = sort_by_expert(routing.experts, config.shape.experts);
  // Uses embedding() rather than index_select(), because its gradients are added in a fixed order on a GPU.
  const at::Tensor read = at::embedding(x, rows.tokens);
  const at::Tensor gate = ops::grouped_linear(read, w("experts.gate_proj"), rows.ends);
  const at::Tensor up = ops::grouped_linear(read, w("experts.up_proj"), rows.ends);
  const at::Tensor inner = gated_activation(config, gate, up);
  const at::Tensor out = ops::grouped_linear(inner, w("experts.down_proj"), rows.ends);
  const at::Tensor by_token = at::embedding(out, rows.places).unflatten(0, routing.experts.sizes());
  return at::bmm(routing.weights.unsqueeze(1), by_token).squeeze(1);
}

// Computes the MLP of tensor-parallel ranks, which have a part of every expert. All of them route every token
// in the same way, so the router's gradients need no sum over ranks. Only the inputs of the experts' parts
// need it.
at::Tensor split_mlp(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                     const Context& context) {
  Routing routing = route(config, w, x, context);
  routing.weights = copy_to_tensor_parallel(w, routing.weights);
  return reduce_from_tensor_parallel(w, mlp(config, w, copy_to_tensor_parallel(w, x), routing));
}

at::Tensor embed(const ModelConfig& config, const BlockWeights& w, const Context& context) {
  return embed_tokens(w, "model.embed_tokens.weight", context, config.shape.vocabulary);
}

at::Tensor layer(const ModelConfig& config, const BlockWeights& w, const at::Tensor& x,
                 const Context& context) {
  const double epsilon = config.settings.norm_epsilon;
  const auto attention = config.shape.family == Family::olmoe ? wide_normed_attention : head_normed_attention;
  const Normed in = add_rms_norm(w, "input_layernorm", x, {}, epsilon);
  const at::Tensor y = context.needed(in.x) + attention(config, w, in.norm, context);
  return y + split_mlp(config, w, output_norm(w, "post_attention_layernorm", y, epsilon), context);
}

at::Tensor final_norm(const ModelConfig& config, const BlockWeights& head, const at::Tensor& x) {
  return rms_norm(head, "model.norm", x, config.settings.norm_epsilon);
}

}  // namespace mixture

const BlockFunctions kMixture{mixture::embed, mixture::layer, mixture::final_norm};

}  // namespace dpo::model
