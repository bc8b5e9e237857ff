#include "model/spec/adapter_config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace dpo::model {
namespace {

// A configuration that PEFT 0.21 wrote, shortened.
constexpr const char* kPeft = R"({
  "alora_invocation_tokens": null, "alpha_pattern": {"v_proj": 8}, "arrow_config": null, "auto_mapping": null,
  "base_model_name_or_path": "org/base", "bias": "none", "corda_config": null, "eva_config": null,
  "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true,
  "layer_replication": null, "layers_pattern": null, "layers_to_transform": null, "loftq_config": {},
  "lora_alpha": 16, "lora_bias": false, "lora_dropout": 0.05, "megatron_config": null,
  "megatron_core": "megatron.core", "modules_to_save": ["lm_head"], "peft_type": "LORA", "qalora_group_size": 16,
  "r": 8, "rank_pattern": {"z": 2, "a": 3}, "revision": null, "target_modules": ["q_proj", "v_proj"],
  "target_parameters": null, "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_dora": true,
  "use_qalora": false, "use_rslora": true})";

TensorTable llama() {
  ModelShape s;
  s.family = Family::llama;
  s.layers = 2;
  s.hidden = 8;
  s.ffn = 12;
  s.heads = s.kv_heads = 2;
  s.head_dim = 4;
  s.vocabulary = 5;
  s.context = 9;
  return tensor_table(s);
}

TEST(AdapterConfig, IsReadAsPeftWritesIt) {
  const AdapterConfig config = parse_adapter_config(kPeft, "f");
  EXPECT_EQ(config.base, "org/base");
  EXPECT_EQ(config.settings.r, 8);
  EXPECT_EQ(config.settings.alpha, 16);
  EXPECT_EQ(config.settings.dropout, 0.05);
  EXPECT_EQ(config.settings.targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(config.settings.modules_to_save, (std::vector<std::string>{"lm_head"}));
  EXPECT_TRUE(config.settings.rslora && config.settings.dora);
  ASSERT_EQ(config.settings.rank_pattern.size(), 2U);
  EXPECT_EQ(config.settings.rank_pattern[0].first, "z") << "the order of the file";
}

TEST(AdapterConfig, IsReadAsWritten) {
  const AdapterConfig config = parse_adapter_config(kPeft, "f");
  const std::string text = text_of(config, llama());
  EXPECT_EQ(text_of(parse_adapter_config(text, "g"), llama()), text);
  const auto object = nlohmann::json::parse(text);
  EXPECT_EQ(object["lora_alpha"].dump(), "16") << "an integer, as PEFT writes it";
  EXPECT_EQ(object["target_modules"], nlohmann::json({"q_proj", "v_proj"}));
}

// PEFT matches a regular expression with all modules, so the expression must not be written unchanged.
TEST(AdapterConfig, NamesTargetsSoThatPeftFindsThem) {
  const auto written = [](std::vector<std::string> targets) {
    AdapterConfig config;
    config.settings.targets = std::move(targets);
    return nlohmann::json::parse(text_of(config, llama()))["target_modules"].dump();
  };
  EXPECT_EQ(written({"all-linear"}),
            R"(["down_proj","gate_proj","k_proj","o_proj","q_proj","up_proj","v_proj"])");
  EXPECT_EQ(written({"mlp.up_proj"}), R"(["mlp.up_proj"])");
  EXPECT_EQ(written({".*self_attn.*"}), R"(["k_proj","o_proj","q_proj","v_proj"])");
  EXPECT_EQ(written({".*q_proj", "mlp.up_proj"}), R"(["q_proj","up_proj"])");
  EXPECT_EQ(written({".*layers.1.*q_proj"}), R"(["model.layers.1.self_attn.q_proj"])");
}

TEST(AdapterConfig, SeparatesTheRevisionOfItsModel) {
  AdapterConfig config;
  for (const char* base : {"org/base@v1", "org/base", "/folder@v1"}) {
    config.base = base;
    const std::string text = text_of(config, llama());
    EXPECT_EQ(parse_adapter_config(text, "f").base, base);
    EXPECT_EQ(nlohmann::json::parse(text)["revision"].is_string(), config.base == "org/base@v1") << text;
  }
}

TEST(AdapterConfig, IsNotNestedDeeply) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  try {
    parse_adapter_config(R"({"peft_type": )" + deep + "}", "adapter_config.json");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "adapter_config.json: nested deeper than 64 levels");
  }
}

TEST(AdapterConfig, RefusesWhatWouldGiveOtherNumbers) {
  const auto problem_of = [](const std::string& key, const std::string& value) {
    auto object = nlohmann::json::parse(kPeft);
    object[key] = nlohmann::json::parse(value);
    try {
      parse_adapter_config(object.dump(), "f");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(problem_of("peft_type", "\"IA3\""), "f: 'peft_type' is \"IA3\": only LORA is supported");
  EXPECT_EQ(problem_of("bias", "\"all\""), "f: 'bias' is \"all\": only \"none\" is supported");
  EXPECT_EQ(problem_of("lora_bias", "true"), "f: 'lora_bias' is true: not supported");
  EXPECT_NE(problem_of("target_parameters", "[\"gate_up_proj\"]").find("LoRA of experts and routers"),
            std::string::npos);
  EXPECT_NE(problem_of("init_lora_weights", "\"pissa\"").find("changes the model's own weights"),
            std::string::npos);
  EXPECT_EQ(problem_of("r", "0"), "f: 'r' is 0, expected a whole number from 1 to 65536");
  EXPECT_EQ(problem_of("lora_alpha", "\"x\""), "f: 'lora_alpha' is \"x\", expected a number above 0");
  EXPECT_EQ(problem_of("target_modules", "[1]"), "f: 'target_modules' is not a list of names");
  EXPECT_EQ(problem_of("init_lora_weights", "\"gaussian\""), "accepted");
}

}  // namespace
}  // namespace dpo::model
