// model/spec describes a model (its sizes and the table of its tensors) without a tensor library, so that
// the planner, the loader, the saver and the sharder read the same facts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::model {

// No switch over these two enumerations has a default. The compiler (-Werror=switch) then rejects code that
// forgets a family.
enum class Family {
  gpt2,
  gpt_neox,
  gptj,
  llama,
  mistral,
  qwen2,
  qwen3,
  gemma2,
  gemma3,
  phi3,
  olmo2,
  olmo3,
  smollm3,
  granite,
  cohere,
  mixtral,
  qwen3_moe,
  olmoe
};

// Kinds of layers. Families of one kind differ only in biases, norms and settings.
enum class LayerKind { gpt2, gpt_neox, gptj, llama, gemma, olmo2, cohere, mixture };

struct FamilyInfo {
  const char* model_type = nullptr;  // in config.json
  const char* name = nullptr;
  LayerKind layers{};
};

constexpr FamilyInfo info_of(Family family) {
  switch (family) {
    case Family::gpt2: return {"gpt2", "GPT-2", LayerKind::gpt2};
    case Family::gpt_neox: return {"gpt_neox", "GPT-NeoX", LayerKind::gpt_neox};
    case Family::gptj: return {"gptj", "GPT-J", LayerKind::gptj};
    case Family::llama: return {"llama", "Llama", LayerKind::llama};
    case Family::mistral: return {"mistral", "Mistral", LayerKind::llama};
    case Family::qwen2: return {"qwen2", "Qwen2", LayerKind::llama};
    case Family::qwen3: return {"qwen3", "Qwen3", LayerKind::llama};
    case Family::gemma2: return {"gemma2", "Gemma 2", LayerKind::gemma};
    case Family::gemma3: return {"gemma3_text", "Gemma 3", LayerKind::gemma};
    case Family::phi3: return {"phi3", "Phi-3", LayerKind::llama};
    case Family::olmo2: return {"olmo2", "OLMo 2", LayerKind::olmo2};
    case Family::olmo3: return {"olmo3", "OLMo 3", LayerKind::olmo2};
    case Family::smollm3: return {"smollm3", "SmolLM3", LayerKind::llama};
    case Family::granite: return {"granite", "Granite", LayerKind::llama};
    case Family::cohere: return {"cohere", "Cohere", LayerKind::cohere};
    case Family::mixtral: return {"mixtral", "Mixtral", LayerKind::mixture};
    case Family::qwen3_moe: return {"qwen3_moe", "Qwen3 MoE", LayerKind::mixture};
    case Family::olmoe: return {"olmoe", "OLMoE", LayerKind::mixture};
  }
  return {};
}

// Returns all enumerators of Family.
std::vector<Family> all_families();

// True if layers with a sliding window use other rotary angles than those without.
constexpr bool has_two_rotaries(Family family) { return family == Family::gemma3 || family == Family::olmo3; }

// Sizes that a Hugging Face config.json gives.
struct ModelShape {
  Family family{};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;  // width of the MLP, or of one expert
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  // the longest sequence
  std::int64_t window = 0;   // of layers with sliding-window attention (see Settings::windowed); 0: none
  std::int64_t experts = 0;  // per layer; 0: one MLP
  std::int64_t experts_per_token = 0;  // number that the router chooses
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool parallel_residual = false;  // attention and MLP read the same input
  bool query_key_norm = false;     // Cohere: layer norms of queries and keys

  LayerKind layer_kind() const { return info_of(family).layers; }
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
};

// Parses a config.json. `origin` (a path or name) begins every error message. Throws a UserError if the model
// type or a size is missing or invalid.
ModelShape parse_shape(std::string_view config_json, const std::string& origin);

}  // namespace dpo::model
