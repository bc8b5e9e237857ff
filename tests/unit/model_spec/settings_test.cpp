#include "model/spec/settings.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/spec/config_object.h"

namespace dpo::model {
namespace {

const std::string kLlama = R"("model_type": "llama", "hidden_size": 64, "intermediate_size": 176,
  "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 8192)";
const std::string kGpt2 =
    R"("model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 9, "n_positions": 4)";

ModelConfig parse(const std::string& members) { return parse_model_config("{" + members + "}", "m"); }

std::string settings_message(const std::string& members) {
  try {
    parse(members);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Settings, AreThoseOfTheFamilyWhereAConfigSaysNothing) {
  const Settings llama = parse(kLlama).settings;
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.activation, Activation::silu);
  EXPECT_EQ(llama.rotary.dim, 16);
  EXPECT_EQ(llama.rotary.theta, 10000);
  const Settings gpt2 = parse(kGpt2).settings;
  EXPECT_EQ(gpt2.activation, Activation::gelu_tanh);
  EXPECT_EQ(gpt2.rotary.dim, 0);
  EXPECT_EQ(gpt2.attention_scale, 0.5);
}

TEST(Settings, RotaryParametersHaveAnOldKeyAndANewOne) {
  const std::string members = R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 1024)";
  const Rotary old =
      parse(kLlama + R"(, "rope_theta": 5e5, "rope_scaling": {)" + members + "}").settings.rotary;
  const Rotary now =
      parse(kLlama + R"(, "rope_parameters": {"rope_theta": 5e5, )" + members + "}").settings.rotary;
  for (const Rotary& rotary : {old, now}) {
    EXPECT_EQ(rotary.scaling, Rotary::Scaling::llama3);
    EXPECT_EQ(rotary.theta, 5e5);
    EXPECT_EQ(rotary.original_context, 1024);
  }
}

// Short waves stay and long ones are stretched by the whole factor. No frequency may increase.
TEST(Settings, Llama3StretchesLongWavesOnly) {
  Rotary plain{.dim = 64, .theta = 5e5};
  Rotary scaled = plain;
  scaled.scaling = Rotary::Scaling::llama3;
  scaled.factor = 8;
  scaled.original_context = 8192;
  const auto before = rotary_frequencies(plain), after = rotary_frequencies(scaled);
  EXPECT_EQ(before.size(), 32u);
  EXPECT_FLOAT_EQ(after.front(), before.front());
  EXPECT_FLOAT_EQ(after.back(), before.back() / 8);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_LE(after[i], before[i]);
    EXPECT_GE(after[i], before[i] / 8.001F);
  }
}

TEST(Settings, RefuseUnsupportedFeaturesByName) {
  struct Case {
    std::string members, expected;
  };
  const Case cases[] = {
      {kLlama + R"(, "hidden_act": "swiglu2")", "'hidden_act' is 'swiglu2', which is not supported"},
      {kLlama + R"(, "rope_scaling": {"rope_type": "ntk", "factor": 4})",
       "type 'ntk' are not supported (supported: default, dynamic, linear, llama3, longrope, yarn)"},
      {kLlama + R"(, "rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [1]})",
       "'short_factor' is not a list of 8 numbers"},
      {kLlama + R"(, "rope_scaling": {"rope_type": "linear"})", "'factor' is missing or below 1"},
      {kLlama + R"(, "rope_scaling": 3)", "'rope_scaling' is not an object"},
      {kLlama + R"(, "rope_parameters": {"full_attention": {"rope_theta": 1}})", "by kind of layer"},
      {kLlama + R"(, "quantization_config": {"bits": 4})", "by the method 'unknown' cannot be read"},
      {kLlama + R"(, "quantization_config": {"quant_method": "gptq", "bits": 4})",
       "m: 'quantization_config': weights quantized by the method 'gptq' cannot be read (supported: nf4 and "
       "int8 of bitsandbytes); use the model that they were made from"},
      {kLlama + R"(, "quantization_config": {"load_in_4bit": true})",
       "weights of bitsandbytes' type 'fp4' cannot be read"},
      {kLlama + R"(, "quantization_config": {"load_in_4bit": 1})",
       "'load_in_4bit' is 1, expected true or false"},
      {kLlama + R"(, "quantization_config": {"load_in_8bit": true, "llm_int8_skip_modules": "x"})",
       "'llm_int8_skip_modules' is not a list"},
      {kLlama + R"(, "quantization_config": 4)", "'quantization_config' is not an object"},
      {kGpt2 + R"(, "quantization_config": {"load_in_8bit": true})",
       "bitsandbytes transposes GPT-2's matrices"},
      {kGpt2 + R"(, "add_cross_attention": true)", "'add_cross_attention' is not supported"},
  };
  for (const Case& c : cases)
    EXPECT_NE(settings_message(c.members).find(c.expected), std::string::npos) << settings_message(c.members);
}

TEST(Settings, Quantization) {
  EXPECT_FALSE(parse(kLlama).settings.quantization);
  EXPECT_FALSE(parse(kLlama + R"(, "quantization_config": null)").settings.quantization);
  const std::string with = kLlama + R"(, "quantization_config": )";
  const auto nf4 =
      parse(with + R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false,
      "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true, "bnb_4bit_quant_storage": "bfloat16",
      "llm_int8_skip_modules": ["lm_head", "model.layers.1.mlp", "layers.0.self_attn.q_proj"]})")
          .settings.quantization;
  ASSERT_TRUE(nf4);
  EXPECT_EQ(name_of(nf4->dtype), "nf4");
  EXPECT_TRUE(nf4->nested);
  EXPECT_TRUE(nf4->covers("model.layers.0.mlp.up_proj.weight"));
  EXPECT_TRUE(nf4->covers("model.layers.11.mlp.up_proj.weight"));
  EXPECT_FALSE(nf4->covers("model.layers.1.mlp.up_proj.weight"));
  EXPECT_FALSE(nf4->covers("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_FALSE(nf4->covers("lm_head.weight"));
  const auto int8 = parse(with + R"({"load_in_8bit": true})").settings.quantization;  // from an old version
  ASSERT_TRUE(int8);
  EXPECT_EQ(name_of(int8->dtype), "int8");
  EXPECT_TRUE(int8->covers("lm_head.weight"));
  EXPECT_FALSE(parse(with + R"({"quant_method": "bitsandbytes"})").settings.quantization);
}

const std::string kMixtral = R"("model_type": "mixtral", "hidden_size": 64, "intermediate_size": 176,
  "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100, "max_position_embeddings": 8192,
  "num_local_experts": 6, "num_experts_per_tok": 2)";
const std::string kQwen3Moe = R"("model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 176,
  "moe_intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100,
  "max_position_embeddings": 8192, "num_experts": 6, "num_experts_per_tok": 4)";

TEST(Settings, Experts) {
  const ModelConfig mixtral = parse(kMixtral), qwen = parse(kQwen3Moe);
  EXPECT_EQ(mixtral.shape.experts, 6);
  EXPECT_EQ(mixtral.shape.experts_per_token, 2);
  EXPECT_EQ(mixtral.shape.ffn, 176);
  EXPECT_EQ(mixtral.settings.rotary.theta, 1e6);
  EXPECT_TRUE(mixtral.settings.norm_topk_prob);
  EXPECT_EQ(mixtral.shape.window, 0);
  EXPECT_EQ(parse(kMixtral + R"(, "sliding_window": 16)").settings.windowed, (std::vector<bool>{true, true}));
  EXPECT_EQ(qwen.shape.ffn, 24);
  EXPECT_FALSE(qwen.settings.norm_topk_prob);
  EXPECT_TRUE(parse(kQwen3Moe + R"(, "norm_topk_prob": true)").settings.norm_topk_prob);
  EXPECT_EQ(qwen.shape.window, 0);
  EXPECT_EQ(parse(kQwen3Moe + R"(, "use_sliding_window": true)").shape.window, 4096);
  const std::pair<const char*, const char*> refused[] = {
      {R"(, "decoder_sparse_step": 2)", "layers without experts"},
      {R"(, "mlp_only_layers": [0])", "layers without experts"},
      {R"(, "clip_qkv": 8.0)", "'clip_qkv' is not supported"},
      {R"(, "num_experts_per_tok": 7)", "'num_experts_per_tok' is 7, but there are only 6 experts"},
      {R"(, "num_experts": 1000000)", "are more than the 262144 experts that are supported"},
  };
  for (const auto& [members, expected] : refused)
    EXPECT_NE(settings_message(kQwen3Moe + members).find(expected), std::string::npos)
        << settings_message(kQwen3Moe + members);
}

// Writing deeply nested settings again, as into a checkpoint, would overflow the stack.
TEST(Settings, AreNotNestedDeeply) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_NE(settings_message(kLlama + R"(, "other": )" + deep).find("nested deeper than 64 levels"),
            std::string::npos);
  const std::string fine = std::string(60, '[') + std::string(60, ']');
  EXPECT_EQ(settings_message(kLlama + R"(, "other": )" + fine), "accepted");
}

TEST(Settings, DropoutIsReported) {
  const auto notes = parse(kGpt2 + R"(, "attn_pdrop": 0.1, "resid_pdrop": 0.0)").settings.notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "m: dropout is ignored (attn_pdrop 0.1)");
}

std::string with_type(const std::string& type) {
  std::string config = kLlama;
  return config.replace(config.find("llama"), 5, type);
}

TEST(Settings, WindowsAreOfSomeLayers) {
  const auto layers = [](const ModelConfig& config) {
    std::string kinds;
    for (std::size_t i = 0; i < 6; ++i) kinds += config.is_windowed(i) ? 'w' : '-';
    return kinds;
  };
  const std::string window = R"(, "sliding_window": 16, "num_hidden_layers": 6)";
  EXPECT_EQ(layers(parse(with_type("mistral") + window)), "wwwwww");
  EXPECT_EQ(parse(with_type("mistral") + window).shape.window, 16);
  EXPECT_EQ(parse(with_type("mistral") + R"(, "sliding_window": null)").shape.window, 0);
  EXPECT_EQ(layers(parse(with_type("qwen2") + window)), "------");
  const std::string used = window + R"(, "use_sliding_window": true, "max_window_layers": 4)";
  EXPECT_EQ(layers(parse(with_type("qwen2") + used)), "----ww");
  EXPECT_EQ(layers(parse(with_type("gemma2") + window)), "w-w-w-");
  EXPECT_EQ(layers(parse(with_type("gemma3_text") + window)), "wwwww-");
  EXPECT_EQ(layers(parse(with_type("olmo3") + window)), "www-ww");
  const std::string listed =
      R"(, "num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"])";
  EXPECT_EQ(parse(with_type("gemma2") + listed).settings.windowed, (std::vector<bool>{false, true}));
}

TEST(Settings, TheTextPartOfAModelForImages) {
  const std::string text = R"("text_config": {"hidden_size": 2560, "intermediate_size": 10240,
    "model_type": "gemma3_text", "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024})";
  const ModelConfig config = parse(R"("model_type": "gemma3", "vision_config": {}, )" + text);
  EXPECT_EQ(config.shape.family, Family::gemma3);
  EXPECT_EQ(config.shape.vocabulary, 262208);
  EXPECT_EQ(config.settings.rotary.factor, 8);
  EXPECT_EQ(config.settings.rotary.theta, 1e6);
  EXPECT_EQ(config.settings.window_rotary->factor, 1);
  EXPECT_EQ(config.settings.window_rotary->theta, 1e4);
  const std::string alone =
      text_part_of(R"({"model_type": "gemma3", "eos_token_id": [1, 106], )" + text + "}");
  EXPECT_EQ(parse_model_config(alone, "m").shape.vocabulary, 262208);
  EXPECT_NE(alone.find("\"architectures\": [\n    \"Gemma3ForCausalLM\""), std::string::npos) << alone;
  EXPECT_NE(alone.find("106"), std::string::npos);
  EXPECT_NE(settings_message(R"("model_type": "gemma3")").find("'text_config' is missing"),
            std::string::npos);
}

TEST(Settings, ThePaddingRowIsOfTheFamiliesThatHaveOne) {
  const auto row = [](const std::string& config) { return parse(config).settings.padding_row; };
  const std::int64_t rows = parse(kLlama).shape.vocabulary;
  EXPECT_EQ(row(kLlama), std::nullopt);
  EXPECT_EQ(row(std::string(kLlama) + R"(, "pad_token_id": 5)"), 5);
  EXPECT_EQ(row(std::string(kLlama) + R"(, "pad_token_id": -1)"), rows - 1);
  EXPECT_EQ(row(std::string(kLlama) + R"(, "pad_token_id": null)"), std::nullopt);
  EXPECT_EQ(row(std::string(kLlama) + R"(, "pad_token_id": 100000000)"), std::nullopt);
}

}  // namespace
}  // namespace dpo::model
