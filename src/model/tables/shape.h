// model/tables: what a model is made of (its sizes and the table of its tensors), without a tensor
// library, so that the planner, the loader, the saver and the sharder read the same facts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::model {

enum class Family { gpt2, gpt_neox, gptj, llama, mistral, qwen2, qwen3 };

// The sizes that a Hugging Face config.json gives.
struct Shape {
  Family family{};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  // the longest sequence
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool parallel_residual = false;  // attention and MLP read the same input

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
};

// Parses a config.json. `origin` (a path or name) begins every error message; a model type or a size that is
// missing or invalid is a UserError.
Shape parse_shape(std::string_view config_json, const std::string& origin);

std::string_view family_name(Family family);  // "GPT-NeoX"

}  // namespace dpo::model
