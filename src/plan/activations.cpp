// Computes what layers save for the backward pass, and how many are recomputed in it.
#include <algorithm>

#include "model/spec/recompute.h"
#include "plan/memory.h"

namespace dpo::plan {
namespace {

// Counts the layers of which a GPU saves only the input, and those of which it keeps all activations. If a
// GPU's last layer is recomputed, no kept layer has been freed at that time, so it counts as kept too.
struct SavedLayers {
  std::int64_t inputs = 0, kept = 0;
};

SavedLayers saved_on_gpu(const Workload& w, std::int64_t gpu) {
  const std::int64_t layers = w.in.shape.layers, each = (layers + w.spread - 1) / w.spread;
  SavedLayers saved;
  bool last_is_recomputed = false;
  for (std::int64_t layer = gpu * each; layer < std::min(layers, (gpu + 1) * each); ++layer) {
    last_is_recomputed = model::is_recomputed(layer, w.recomputed_layers, layers);
    ++(last_is_recomputed ? saved.inputs : saved.kept);
  }
  if (last_is_recomputed) ++saved.kept;
  return saved;
}

// Returns the bytes per token that an adapter adds to the activations of a layer (the largest over all
// layers): A x; with dropout also the input of A and the mask; with DoRA also the output before scaling.
double adapter_activation_bytes(const Workload& w) {
  if (!w.in.adapter) return 0;
  double most = 0;
  for (const model::Block& block : w.in.adapter->blocks) {
    double elements = 0;
    for (const model::TensorInfo& tensor : block.tensors) {
      const double ranks = tensor.split ? to_double(w.mesh.tensor) : 1;
      if (tensor.name.ends_with(".lora_A.weight"))
        elements += to_double(tensor.shape[0]) +
                    (w.in.run.adapter.dropout > 0 ? 2 * to_double(tensor.shape[1]) / ranks : 0);
      else if (tensor.name.ends_with(".lora_magnitude_vector"))
        elements += to_double(tensor.shape[0]) / ranks;
    }
    most = std::max(most, elements);
  }
  return most * to_double(w.bytes.weights);
}

}  // namespace

// Returns what our layers save. Fused layers may save less, never more.
std::vector<SavedTensor> saved_tensors(const model::ModelShape& s, std::int64_t element_bytes) {
  const auto bytes = [element_bytes](std::int64_t elements) { return to_double(elements * element_bytes); };
  using Kind = model::LayerKind;
  const Kind kind = s.layer_kind();
  const bool gemma = kind == Kind::gemma, olmo = kind == Kind::olmo2, cohere = kind == Kind::cohere;
  const bool mixture = kind == Kind::mixture;
  const bool gated = kind == Kind::llama || gemma || olmo || cohere || mixture;
  const bool one_norm = kind == Kind::gptj || cohere;
  const double norms = one_norm ? 1 : gemma ? 4 : 2;
  const double statistics = gated && !cohere ? 4 : 8;  // float32: inverse deviation; layer norm also the mean
  std::vector<SavedTensor> saved = {
      {"layer input", bytes(s.hidden), false},
      {olmo ? "attention projection" : "first norm", bytes(s.hidden), false},
      {"queries", bytes(s.query_width()), true},
      {"keys and values", bytes(2 * s.kv_width()), true},
      {"attention output", bytes(s.query_width()), true},
      {"log-sum-exp", 4 * to_double(s.heads), true},
      {"norm statistics", norms * statistics, false},
  };
  if ((gemma || cohere) && element_bytes < 4)
    saved.push_back({"norm inputs in float32", norms * 4 * to_double(s.hidden), false});
  else if (gemma)
    saved.push_back({"outputs before their norms", bytes(2 * s.hidden), false});
  if (olmo || s.family == model::Family::olmoe)
    saved.push_back({"queries and keys before their norms", bytes(s.query_width() + s.kv_width()), true});
  if (!one_norm) saved.push_back({olmo ? "MLP output" : "second norm", bytes(s.hidden), false});
  if (!s.parallel_residual) saved.push_back({"residual between", bytes(s.hidden), false});
  if (!mixture) {
    saved.push_back({"MLP inner", bytes((gated ? 3 : 2) * s.ffn), true});
    return saved;
  }
  const std::int64_t rows = s.experts_per_token;
  // The router saves probabilities of all experts in float32, and five 8-byte numbers for each chosen expert.
  saved.push_back({"router", to_double(4 * s.experts + 40 * rows), false});
  saved.push_back({"inputs and outputs of experts", bytes(2 * rows * s.hidden), false});
  saved.push_back({"inner states of experts", bytes(4 * rows * s.ffn), true});
  return saved;
}

double activation_bytes(const Workload& w) {
  double layer = adapter_activation_bytes(w);
  for (const SavedTensor& saved : saved_tensors(w.in.shape, w.bytes.weights))
    layer += saved.split ? saved.bytes / to_double(w.mesh.tensor) : saved.bytes;
  const double input = to_double(w.in.shape.hidden * w.bytes.weights);
  double body = 0;
  for (std::int64_t gpu = 0; gpu < w.spread; ++gpu) {
    const auto [inputs, kept] = saved_on_gpu(w, gpu);
    body = std::max(body, to_double(inputs) * input + to_double(kept) * layer);
  }
  const double ends = 2 * input;  // the embedding's output and the final norm's
  return w.peak_tokens * (body + ends);
}

std::int64_t recomputed_layers_of(const Workload& w) {
  const std::int64_t layers = w.in.shape.layers;
  const config::RecomputedLayers& asked = w.in.run.activation_checkpointing;
  if (!asked.is_automatic()) return std::min(asked.count, layers);
  Workload tried = w;
  const auto fits = [&tried](std::int64_t count) {
    tried.recomputed_layers = count;
    return memory_per_gpu(tried).fits_with_room();
  };
  if (layers == 1 || fits(0)) return 0;
  std::int64_t least = 1, most = layers - 1;
  while (least < most) {
    const std::int64_t middle = (least + most) / 2;
    if (fits(middle))
      most = middle;
    else
      least = middle + 1;
  }
  return least;
}

}  // namespace dpo::plan
