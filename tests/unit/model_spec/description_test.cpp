#include "model/spec/description.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dpo::model {
namespace {

const nlohmann::json kNeoxConfig =
    nlohmann::json::parse(R"({"model_type": "gpt_neox", "vocab_size": 64, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512,
    "use_parallel_residual": true, "rotary_pct": 1.0})");
const nlohmann::json kLlamaConfig =
    nlohmann::json::parse(R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512})");
const nlohmann::json kGemma3Config =
    nlohmann::json::parse(R"({"model_type": "gemma3_text", "vocab_size": 64, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 512, "sliding_window": 16})");

Description described_of(nlohmann::json config, const nlohmann::json& changes = nlohmann::json::object()) {
  config.update(changes);
  return describe(parse_model_config(config.dump(), "config.json"));
}

std::string change_of(const nlohmann::json& config, const nlohmann::json& changes) {
  return differences(described_of(config), described_of(config, changes));
}

TEST(Description, NamesWhatChangesTheComputation) {
  EXPECT_EQ(change_of(kNeoxConfig, {{"use_parallel_residual", false}}),
            "use_parallel_residual was true, is false");
  EXPECT_EQ(change_of(kNeoxConfig, {{"rotary_emb_base", 500000}}), "rope_theta was 10000, is 500000");
  EXPECT_EQ(change_of(kNeoxConfig, {{"rotary_pct", 0.5}, {"layer_norm_eps", 1e-6}}),
            "norm_eps was 1e-05, is 1e-06; rope_dim was 8, is 4");
  EXPECT_EQ(change_of(kNeoxConfig, {{"hidden_act", "relu"}}), "hidden_act was gelu, is relu");
  EXPECT_EQ(change_of(kLlamaConfig, {{"rms_norm_eps", 1e-5}}), "norm_eps was 1e-06, is 1e-05");
  const nlohmann::json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(change_of(kLlamaConfig, {{"rope_scaling", linear}}), "rope_type was default, is linear");
  const nlohmann::json more = {{"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(differences(described_of(kLlamaConfig, {{"rope_scaling", linear}}),
                        described_of(kLlamaConfig, {{"rope_scaling", more}})),
            "rope_factor was 2, is 4");
  EXPECT_EQ(change_of(kGemma3Config, {{"sliding_window", 8}}), "sliding_window was 16, is 8");
  EXPECT_EQ(change_of(kGemma3Config, {{"sliding_window_pattern", 3}}),
            "sliding_layers was 0 1 2 3 4, is 0 1 3 4");
  EXPECT_EQ(change_of(kGemma3Config, {{"rope_local_base_freq", 20000}}),
            "sliding_rope_theta was 10000, is 20000");
  EXPECT_EQ(change_of(kGemma3Config, {{"final_logit_softcapping", 30}}),
            "final_logit_softcapping was 0, is 30");
  EXPECT_EQ(change_of(kGemma3Config, {{"query_pre_attn_scalar", 64}}),
            "attention_scale was 0.0625, is 0.125");
}

TEST(Description, IgnoresWhatComputesNothing) {
  EXPECT_EQ(change_of(kNeoxConfig,
                      {{"transformers_version", "5.0"}, {"bos_token_id", 1}, {"torch_dtype", "bfloat16"}}),
            "");
  EXPECT_EQ(change_of(kNeoxConfig, {{"initializer_range", 0.1}, {"max_position_embeddings", 1024}}), "");
  EXPECT_EQ(change_of(kNeoxConfig, {{"use_parallel_residual", true}, {"layer_norm_eps", 1e-5}}), "")
      << "defaults";
  nlohmann::json reordered = nlohmann::json::parse(R"({"rotary_pct": 1.0})");
  reordered.update(kNeoxConfig);
  EXPECT_EQ(described_of(reordered), described_of(kNeoxConfig));
}

TEST(Description, ComparesWhatBothHave) {
  EXPECT_EQ(differences({{"new", "1"}}, {{"rope_theta", "1"}}), "");
  EXPECT_EQ(differences({}, described_of(kNeoxConfig)), "");
}

}  // namespace
}  // namespace dpo::model
