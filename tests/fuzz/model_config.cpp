// One input is the text of a config.json. Only a UserError may escape, allocations are bounded by the file's
// size, and accepted sizes can be multiplied without overflow.
#include <cmath>
#include <string>

#include "allocations.h"
#include "base/error.h"
#include "model/spec/settings.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::model_config {
namespace {

using dpo::model::ModelConfig;

void check_config(const ModelConfig& config) {
  const auto& shape = config.shape;
  for (const std::int64_t size : {shape.layers, shape.hidden, shape.ffn, shape.heads, shape.kv_heads,
                                  shape.head_dim, shape.vocabulary, shape.context})
    if (size < 1 || size > std::int64_t{1} << 26) fail("a size that cannot be");
  if (shape.heads % shape.kv_heads != 0) fail("heads that cannot be shared");
  if (shape.experts < 0 || shape.experts_per_token > shape.experts) fail("experts that cannot be chosen");
  const auto& rotary = config.settings.rotary;
  if (rotary.dim < 0 || rotary.dim > shape.head_dim || rotary.dim % 2 != 0) fail("rotated dimensions");
  for (const float frequency : dpo::model::rotary_frequencies(rotary))
    if (!std::isfinite(frequency)) fail("a frequency that is not finite");
  if (!std::isfinite(config.settings.norm_epsilon) || !std::isfinite(config.settings.initializer_range))
    fail("a number that is none");
}

bool try_input(std::string_view input) {
  constexpr std::size_t kPerByte = 64;
  const AllocationCount count;
  bool accepted = false;
  try {
    check_config(dpo::model::parse_model_config(input, "input"));
    accepted = true;
  } catch (const dpo::UserError& error) {
    if (!std::string_view(error.what()).starts_with("input: ")) fail("a message without its file");
  }
  check_allocations(count, input.size(), kPerByte);
  return accepted;
}

const std::string kSeeds[] = {
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 13, "n_positions": 16,
        "n_inner": null, "activation_function": "gelu_new", "attn_pdrop": 0.1, "tie_word_embeddings": true})",
    R"({"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 64,
        "num_attention_heads": 2, "vocab_size": 13, "max_position_embeddings": 16, "rotary_pct": 0.25,
        "rotary_emb_base": 10000, "use_parallel_residual": true, "hidden_act": "gelu", "attention_bias": true})",
    R"({"model_type": "gptj", "n_layer": 2, "n_embd": 16, "n_head": 2, "vocab_size": 13, "n_positions": 16,
        "rotary_dim": 4, "layer_norm_epsilon": 1e-05})",
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 13, "max_position_embeddings": 16,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8}, "rope_theta": 500000.0, "rms_norm_eps": 1e-06})",
    R"({"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 64, "head_dim": 8,
        "num_attention_heads": 4, "vocab_size": 13, "max_position_embeddings": 16, "use_sliding_window": true,
        "sliding_window": 8, "rope_parameters": {"type": "linear", "factor": 2}, "initializer_range": 0.02})",
    R"({"model_type": "gemma3", "text_config": {"num_hidden_layers": 2, "hidden_size": 16, "vocab_size": 13,
        "layer_types": ["sliding_attention", "full_attention"], "rope_parameters": {"full_attention":
        {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32, "truncate": false}}}, "eos_token_id": [1]})",
    R"({"model_type": "phi3", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 64,
        "num_attention_heads": 4, "vocab_size": 13, "max_position_embeddings": 16, "rope_scaling": {"type": "su",
        "short_factor": [1, 1.5], "long_factor": [2, 4]}, "original_max_position_embeddings": 8})",
    R"({"model_type": "smollm3", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 64,
        "num_attention_heads": 4, "vocab_size": 13, "max_position_embeddings": 16, "no_rope_layers": [0, 1]})",
    R"({"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 16, "moe_intermediate_size": 64,
        "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 13, "max_position_embeddings": 16,
        "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": true, "mlp_only_layers": []})",
};

const Tokens kTokens = json_tokens({"1",
                                    "-",
                                    "7",
                                    "1e9",
                                    "1e99",
                                    "0.5",
                                    "16777216",
                                    "16777217",
                                    "false",
                                    "\"llama\"",
                                    "\"mistral\"",
                                    "\"qwen2\"",
                                    "\"head_dim\":",
                                    "\"factor\":",
                                    "\"rotary_pct\":",
                                    "\"rope_type\":\"yarn\",",
                                    "\"num_key_value_heads\":",
                                    "\"quantization_config\":{},",
                                    "\"quantization_config\":{\"load_in_8bit\":true,",
                                    "\"quant_method\":\"bitsandbytes\",",
                                    "\"load_in_4bit\":true,",
                                    "\"bnb_4bit_quant_type\":\"nf4\",",
                                    "\"llm_int8_skip_modules\":[\"a\"],",
                                    "\"sliding_window\":4,"});

std::string make(Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  if (mutator.below(2) == 0) mutator.change_number(text);
  mutator.mutate(text, kTokens, 5);
  if (mutator.below(5000) == 0) text.insert(mutator.below(text.size() + 1), std::string(100'000, '['));
  return text;
}

const Registered kTarget({"model_config", make, try_input});

}  // namespace
}  // namespace fuzz::model_config
