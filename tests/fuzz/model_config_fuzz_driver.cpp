// Runs the fuzz target without libFuzzer on spoilt configurations. Usage: model_config_fuzz [COUNT [SEED]]
#include "mutate.h"
#include "weights_fuzz.h"

namespace {

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
};

const std::string kTokens[] = {"{",
                               "}",
                               "[",
                               "]",
                               ",",
                               ":",
                               "\"",
                               "\\",
                               "0",
                               "1",
                               "-",
                               "-1",
                               "7",
                               "1e9",
                               "1e99",
                               "1e999",
                               "0.5",
                               "16777216",
                               "16777217",
                               "9223372036854775808",
                               "18446744073709551615",
                               "null",
                               "true",
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
                               "\"sliding_window\":4,",
                               "{\"a\":",
                               "[[",
                               "\\u0000",
                               "\xff",
                               " "};

std::string make(fuzz::Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  if (mutator.below(2) == 0) mutator.change_number(text);
  mutator.mutate(text, kTokens, 5);
  if (mutator.below(5000) == 0) text.insert(mutator.below(text.size() + 1), std::string(100'000, '['));
  return text;
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run(argc, argv, "configurations", make, try_weights_input); }
